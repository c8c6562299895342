// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>

#include "core/closer.hpp"
#include "flow.hpp"
#include "listeners.hpp"
#include "tcp_info.hpp"

namespace dcgym {

/// A TCP transfer: both ends of one connection. It ends when the receiver has read all bytes.
class TcpRun final : public Run, public Accepts {
  public:
    TcpRun(World &world, Listeners &listeners, SocketCloser &closer, RunSpec spec, Ended ended);

    void begin() override;
    void sample() override;
    void accepted(Fd socket, const std::string &inherited) override;

  private:
    using Descriptor = asio::posix::stream_descriptor;

    void due() override;
    void close(dcgym_generator_outcome outcome) override;
    void close_socket(Descriptor &descriptor, dcgym_generator_outcome outcome);
    std::uint64_t delivered_bytes() override;

    std::shared_ptr<TcpRun> self();
    void wait(Descriptor &descriptor, Descriptor::wait_type what, void (TcpRun::*then)());
    void set_sender_options(int fd) const;
    int most_unsent_bytes() const;
    void connect(int fd);
    void write_some();
    ssize_t write_chunk(std::uint64_t want_bytes);
    void watch_sender();
    void set_receiver_options(int fd, const std::string &inherited) const;
    void read_some();
    ssize_t read_chunk();
    void broken();
    bool is_complete() const;
    std::uint64_t remaining_bytes() const;
    void count_rx(std::uint64_t total_bytes);

    Listeners &listeners_;
    SocketCloser &closer_;
    Descriptor sender_;
    Descriptor receiver_;
    Connection connection_;
    bool connected_ = false; /* the receiver accepted */
    std::uint64_t written_bytes_ = 0;
    std::uint64_t read_bytes_ = 0;
    std::uint64_t counted_tx_bytes_ = 0; /* what the hosts' counters already hold */
    std::uint64_t counted_rx_bytes_ = 0;
};

} // namespace dcgym
