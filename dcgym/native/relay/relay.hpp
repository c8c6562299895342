// SPDX-License-Identifier: Apache-2.0
// Holds the packets of all delayed links until their times.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "memory.hpp"

namespace dcgym::relay {

/// One direction of a link.
struct LinkConfig {
    std::int64_t delay_ns = 0;
    std::int64_t jitter_ns = 0;   // most that is added to a packet's delay
    std::uint64_t loss = 0;       // probability, of 2^32
    std::uint64_t most_bytes = 0; // held, each packet counted with kPacketBytes more
};

/// What the relay's own memory of a packet costs, about.
constexpr std::uint64_t kPacketBytes = 128;

/// One thread over all TAPs. No packet overtakes another of its link, and none leaves early.
///
/// What happens to the packet number i of a link is drawn from the seed, the number of the link and
/// i: the same packets meet the same losses.
class Relay {
  public:
    Relay(Memory &memory, int control_fd);
    ~Relay();
    Relay(const Relay &) = delete;
    Relay &operator=(const Relay &) = delete;

    /// Takes over the descriptor of a TAP; throws std::invalid_argument where there is no room.
    void add(const LinkConfig &config, int tap_fd);
    /// Drops what is held and what waits in the TAPs; returns how many packets that were.
    std::uint64_t flush();
    std::uint64_t flush(std::size_t link);
    /// Whether a link is up; what is due while it is down is dropped, and counted as rejected.
    void set_up(std::size_t link, bool is_up) { links_[link].is_up = is_up; }
    /// Flushes, counts from zero, lets all links be up, and draws from a new seed.
    std::uint64_t begin(std::uint64_t seed);
    std::size_t size() const { return links_.size(); }

    /// Waits until something is due or comes, and does it. Returns whether the control socket has
    /// something to read.
    bool step();

  private:
    struct Packet {
        std::int64_t due_ns;
        std::unique_ptr<char[]> data;
        std::uint32_t bytes;
    };
    struct Link {
        LinkConfig config;
        int fd = -1;
        bool is_up = true;
        std::uint64_t number = 0; // of the next packet
        std::int64_t last_due_ns = 0;
        std::deque<Packet> held;
    };
    struct Due {
        std::int64_t due_ns;
        std::size_t link;
        bool operator<(const Due &other) const { return due_ns > other.due_ns; }
    };

    void receive(std::size_t index);
    void hold(std::size_t index, const char *data, std::size_t bytes, std::int64_t arrival_ns);
    void deliver();
    void deliver_first(std::size_t index, std::int64_t now_ns);
    std::int64_t next_due_ns();
    void set_timer();

    Memory &memory_;
    int epoll_fd_ = -1, timer_fd_ = -1, control_fd_;
    std::int64_t timer_ns_ = 0;
    std::uint64_t seed_ = 0;
    std::deque<Link> links_;
    // The first packet of each link, and entries of packets that are gone.
    std::priority_queue<Due> due_;
    std::vector<char> buffer_;
};

} // namespace dcgym::relay
