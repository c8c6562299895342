// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "flow.hpp"
#include "udp_pacing.hpp"

namespace dcgym {

/// A constant-rate UDP flow with a receiving socket of its own.
class UdpRun final : public Run {
  public:
    UdpRun(World &world, UdpPacing &pacing, RunSpec spec, Ended ended)
        : Run{world, std::move(spec), std::move(ended)}, pacing_{pacing} {}

    void begin() override;
    void sample() override;

  private:
    void due() override;
    void close(dcgym_generator_outcome outcome) override;
    std::uint64_t delivered_bytes() override;

    void open_sockets();
    void connect_sockets();
    void size_datagrams();
    void tick();
    std::uint64_t datagrams_per_s() const;
    std::int64_t next_send_ns() const;
    void send_due(std::int64_t time_ns);
    bool send_burst(std::uint64_t bytes);
    std::uint64_t due_bytes(std::int64_t time_ns) const;
    bool all_sent(std::int64_t time_ns) const;
    void drain();
    void await_stragglers(std::int64_t time_ns);

    UdpPacing &pacing_;
    Fd sender_;
    Fd receiver_;
    std::size_t datagram_bytes_ = 0;
    bool segmentation_ = true;
    bool paced_ = false;                /* counted in the common pacing */
    std::int64_t origin_ns_ = 0;        /* of the rate: moves on when the sender was held up */
    std::uint64_t scheduled_bytes_ = 0; /* handed to the kernel or given up since the start */
    std::uint64_t base_bytes_ = 0;      /* scheduled_bytes_ at origin_ns_ */
    std::uint64_t sent_bytes_ = 0;
    std::uint64_t counted_tx_bytes_ = 0; /* what the host counter already holds */
    std::uint64_t received_bytes_ = 0;
    std::int64_t last_arrival_ns_ = 0;
    std::int64_t sent_all_ns_ = 0;
};

} // namespace dcgym
