// SPDX-License-Identifier: Apache-2.0
// The token bucket of Linux' tbf as the emulation sets it, in closed form.
#pragma once

#include <algorithm>
#include <cstdint>

#include "packet.hpp"

namespace dcgym::twin::packets {

// Time that bytes take at a rate, rounded as the kernel's psched_l2t_ns rounds: a multiplier of 32
// significant bits and a shift.
class ByteRate {
  public:
    ByteRate() = default;
    explicit ByteRate(uint64_t rate_bps) {
        const uint64_t bytes_per_s = std::max<uint64_t>(rate_bps / 8, 1);
        uint64_t factor = 1'000'000'000;
        for (;;) {
            multiplier_ = factor / bytes_per_s;
            if ((multiplier_ & (1U << 31)) || (factor & (1ULL << 63)))
                break;
            factor <<= 1;
            shift_++;
        }
    }
    int64_t time_ns(uint32_t bytes) const {
        return static_cast<int64_t>((bytes * multiplier_) >> shift_);
    }

  private:
    uint64_t multiplier_ = 1;
    uint32_t shift_ = 0;
};

constexpr uint32_t cheap_packet_bytes = 4 * 1514;

// Bytes a bucket may send at once: a millisecond of the rate, two frames at least. The same rule as
// burst_for and packet_for of kernel/netlink/netlink.cpp, which a test compares.
inline uint32_t burst_for(uint64_t rate_bps, uint32_t frame_bytes) {
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(rate_bps / 8 / 1000, 2 * frame_bytes, UINT32_MAX));
}

// Largest packet that may wait at an interface of this full rate; larger ones are segmented.
inline uint32_t packet_for(uint64_t link_rate_bps, uint32_t frame_bytes) {
    const uint64_t millisecond = link_rate_bps / 8 / 1000;
    const uint64_t bytes = std::max<uint64_t>(
        millisecond / 16, std::min<uint64_t>(millisecond / 2, cheap_packet_bytes));
    return static_cast<uint32_t>(std::clamp<uint64_t>(bytes, frame_bytes, UINT32_MAX));
}

// Tokens are kept as the time at which the bucket would have been empty: it holds (now - empty_ns),
// at most depth_ns. That makes the departure of a packet known when it is enqueued.
class TokenBucket {
  public:
    // The rate now, that of the link, and the largest frame.
    void set_rate(uint64_t rate_bps, uint64_t link_rate_bps, uint32_t frame_bytes, int64_t now_ns) {
        rate_ = ByteRate(rate_bps);
        depth_ns_ = rate_.time_ns(
            std::max(burst_for(rate_bps, frame_bytes), packet_for(link_rate_bps, frame_bytes)));
        fill(now_ns);
    }
    void fill(int64_t now_ns) { empty_ns_ = now_ns - depth_ns_; }

    // When a packet leaves that is at the head of the queue from head_ns on.
    int64_t send(uint32_t bytes, int64_t head_ns) {
        empty_ns_ = std::max(empty_ns_, head_ns - depth_ns_) + rate_.time_ns(bytes);
        return std::max(head_ns, empty_ns_);
    }

  private:
    ByteRate rate_;
    int64_t depth_ns_ = 0;
    int64_t empty_ns_ = 0;
};

} // namespace dcgym::twin::packets
