// SPDX-License-Identifier: MIT
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "listeners.hpp"
#include "tcp_info.hpp"

namespace dcgym {

/// A TCP transfer: both ends of one connection. It ends when the receiver has all bytes.
class TcpRun final : public Run, public Accepts {
  public:
    TcpRun(World &world, Listeners &listeners, const FlowSpec &spec, std::uint64_t repetition,
           std::int64_t planned_start_ns, Ended ended);

    void begin() override;
    void sample() override;
    void accepted(Fd socket) override;

  private:
    using Descriptor = asio::posix::stream_descriptor;

    void close() override;
    std::uint64_t delivered_bytes() const override { return in_order_bytes_; }

    std::shared_ptr<TcpRun> self();
    void set_sender_options(int fd);
    void connect(int fd);
    void wait_writable();
    void write_some();
    void finish_writing();
    void watch_sender();
    void wait_readable();
    void read_some();
    void received_all();
    void arm_deadline();
    std::uint64_t remaining_bytes() const;
    void count_in_order(std::uint64_t total_bytes);
    void count_rx(std::uint64_t total_bytes);
    void sample_sender();

    Listeners &listeners_;
    Descriptor sender_;
    Descriptor receiver_;
    asio::steady_timer deadline_;
    std::uint64_t written_bytes_ = 0;
    std::uint64_t read_bytes_ = 0;
    std::uint64_t in_order_bytes_ = 0;
    std::uint64_t counted_tx_bytes_ = 0; /* what the hosts' counters already hold */
    std::uint64_t counted_rx_bytes_ = 0;
};

} // namespace dcgym
