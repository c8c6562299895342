// SPDX-License-Identifier: Apache-2.0
// The receiving end of a TCP connection: what has come, and when it is acknowledged.
#pragma once

#include <cstdint>
#include <vector>

namespace dcgym::twin::packets {

struct Block {
    uint32_t begin, end;
};

// How much the receiver offers to take, and how that grows (tcp_grow_window, tcp_rcv_space_adjust).
// The application reads when 16 KB wait, as the traffic generator does.
class ReceiveWindow {
  public:
    ReceiveWindow() = default;
    // Of a connection with segments of this size.
    explicit ReceiveWindow(uint32_t mss_bytes);
    // A packet has come; returns whether the window grows by it.
    bool take(uint32_t segments, uint32_t in_order, uint32_t out_of_order, int64_t now_ns);
    // The time stamp that a packet echoes: a round trip, where no other packet did before.
    void measure(uint32_t echoed_ms, uint32_t now_ms);
    // The application has the socket, and reads what has come by then, however little.
    void accept(int64_t now_ns) {
        if (unread_ > 0)
            read(now_ns);
    }
    // Offers anew, with an acknowledgement of so many segments more than the last one; returns
    // how many segments beyond them. As tcp_select_window: in steps of the window's scale, and what
    // was offered stays so.
    uint32_t offer(uint32_t segments);
    uint32_t rtt_us() const { return rtt_us_; } // eight times the mean; 0: not measured

  private:
    uint32_t from_space(uint64_t bytes) const { return static_cast<uint32_t>(bytes * ratio_ >> 8); }
    uint32_t free_bytes(uint64_t waiting_bytes) const {
        const uint64_t held_bytes = unread_bytes_ + waiting_bytes;
        return from_space(buffer_bytes_ > held_bytes ? buffer_bytes_ - held_bytes : 0);
    }
    void read(int64_t now_ns);

    uint64_t buffer_bytes_ = 131'072; // sysctl tcp_rmem
    uint32_t mss_bytes_ = 0;
    uint16_t ratio_ = 128;  // of 256: what of the buffer is payload
    uint16_t segments_ = 0; // of the last packet
    uint32_t threshold_bytes_ = 0;
    uint32_t room_bytes_ = 0, offered_bytes_ = 0; // now, and with the last offer
    uint32_t unread_ = 0;                         // segments
    uint64_t unread_bytes_ = 0;                   // in the buffer, with what the kernel adds
    uint64_t copied_ = 0, copied_before_ = 0, space_bytes_ = 0;
    int64_t measured_ns_ = 0;
    uint32_t rtt_us_ = 0, last_echo_ms_ = 0; // the first is eight times the mean
};

// What an acknowledgement takes along that a packet has no room for. Its blocks have the newest
// first (RFC 2018); the first may tell of data that came twice (RFC 2883).
struct AckNote {
    static constexpr uint32_t most = 3; // beside timestamps
    uint32_t sent_ms = 0;               // its time stamp
    uint32_t window_end = 0;            // first segment that the receiver does not take yet
    Block blocks[most];
    uint32_t count = 0;
    bool is_duplicate = false;
};

struct Receiver {
    uint32_t rcv_nxt = 0, rcv_wup = 0;
    // Out of order: disjoint blocks by rising sequence, and those that grew last, newest first.
    std::vector<Block> blocks;
    static constexpr uint32_t most_recent = 4; // TCP_NUM_SACKS
    Block recent[most_recent]{};
    uint32_t recents = 0;
    Block duplicate{0, 0};  // what came twice, for the next acknowledgement; empty: nothing
    uint32_t recent_ms = 0; // newest time stamp of what came in order
    uint32_t quick_acks = 0;
    ReceiveWindow window;
    bool has_data = false, is_accepted = false;
    bool is_ack_scheduled = false, is_ack_now = false;
    int64_t delayed_ack_ns = 0; // when the delayed acknowledgement is due; 0: none waits
    int64_t ack_timeout_ns = 0, last_data_ns = 0;
    // Acknowledgements of what came out of order: how many went out since something came in order,
    // how many one that waits stands for, and when that is due; 0: none waits.
    uint32_t duplicate_acks = 0, duplicate_nxt = 0, compressed_acks = 0;
    int64_t compressed_ack_ns = 0;
    uint32_t handshake_rtt_us = 0; // eight times, as the other end's; 0: not measured
    bool echoes_congestion = false, ce_state = false;
    uint32_t prior_rcv_nxt = 0;

    // Takes segments in; returns how many are new.
    uint32_t take(uint32_t begin, uint32_t end);
    // Whether segments out of order touch none of those that acknowledgements tell of.
    bool is_apart(uint32_t begin, uint32_t end) const;
    void remember(Block block);
};

} // namespace dcgym::twin::packets
