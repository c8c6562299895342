// SPDX-License-Identifier: Apache-2.0
// The sending end of a TCP connection; names and units are those of Linux' tcp_sock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel_time.hpp"
#include "packet.hpp"
#include "plb.h"
#include "receiver.hpp"
#include "ring.hpp"
#include "core/random.hpp"

namespace dcgym::twin::packets {

struct CongestionOps;

constexpr uint32_t infinite_ssthresh = 0x7fffffff;
constexpr uint32_t unlimited = 0xffffffff;
constexpr uint32_t first_cwnd = 10;         // RFC 6928
constexpr uint32_t skb_bytes = 832;         // truesize of a packet without its payload
constexpr uint32_t duplicate_threshold = 3; // sysctl tcp_reordering
constexpr uint32_t least_tso_segments = 2;  // sysctl tcp_min_tso_segs

enum class CaState : uint8_t { open, disorder, cwr, recovery, loss };
enum class Timer : uint8_t { none, retransmit, probe, reorder };

// One segment of the window.
struct Segment {
    enum Flag : uint8_t {
        sacked = 1,
        lost = 2,
        in_retransmission = 4,
        retransmitted = 8,
        begins = 16
    };
    int64_t sent_ns;
    uint32_t delivered; // by the connection when it was sent
    uint8_t flags;
};

// What a segment takes along for the estimate of the delivery rate.
struct RateMark {
    int64_t first_sent_ns, delivered_ns;
    bool is_app_limited;
};

struct Retransmission {
    int64_t sent_ns;
    uint32_t seq;
};

// Segments that a connection's receiver offers to take at first: half of its buffer.
constexpr uint32_t first_window(uint32_t mss_bytes) {
    return 65'536 / mss_bytes;
}

// Sequence numbers count segments: every one but the last of a flow holds mss_bytes.
struct Sender {
    // The window.
    uint32_t snd_una = 0, snd_nxt = 0, total = unlimited, high_seq = 0;
    uint32_t echoed_ms = 0;  // newest time stamp of the receiver
    uint32_t window_end = 0; // first segment that the receiver does not take yet
    uint32_t snd_cwnd = first_cwnd, snd_ssthresh = infinite_ssthresh, snd_cwnd_cnt = 0;
    uint32_t prior_cwnd = 0, prr_delivered = 0, prr_out = 0;
    uint32_t sacked_out = 0, lost_out = 0, retrans_out = 0;
    uint32_t delivered = 0, delivered_ce = 0, lost = 0;
    uint32_t max_packets_out = 0, cwnd_usage_seq = 0;
    bool is_cwnd_limited = false;
    CaState state = CaState::open;
    // Round trips: srtt_us is eight times the smoothed one, as in the kernel.
    uint32_t srtt_us = 0, mdev_us = 0, mdev_max_us = 0, rttvar_us = 0, rtt_seq = 0;
    uint32_t min_rtt_us = 0, mss_bytes = 0;
    int64_t rto_ns = 1'000'000'000;
    uint32_t backoff = 0;
    // RACK (RFC 8985).
    int64_t rack_sent_ns = 0, rack_rtt_ns = 0;
    uint32_t rack_seq = 0, rack_scan = 0;
    bool has_rack_advanced = false;
    uint32_t retransmit_hint = 0;         // no segment before it has to be sent again
    Ring<Retransmission> retransmissions; // in the order of their sending
    // Tail loss probe.
    uint32_t tlp_high_seq = 0;
    bool is_tlp_out = false, is_tlp_retransmission = false;
    // Timers; the simulation's leaf of the flow holds the soonest.
    Timer timer = Timer::none;
    int64_t timer_ns = 0, pacing_ns = 0;
    // Pacing: when the last packet left, or when the next may (tcp_wstamp_ns).
    int64_t wstamp_ns = 0;
    uint32_t segments_sent = 0, segments_sent_again = 0;
    // What waits in the host, in the kernel's truesize, and by how much it may send.
    uint64_t queued_bytes = 0;
    bool is_throttled = false;
    uint64_t pacing_rate = ~0ULL, max_pacing_rate = ~0ULL; // bytes/s
    bool is_paced = false;
    bool uses_ecn = false;
    uint32_t tso_segments = 1;  // most segments of one packet at this host
    uint32_t skb_segments = 1;  // of a packet as the application's write fills it
    uint32_t head_segments = 0; // left of the packet at the head of what is unsent
    int64_t now_ns = 0;
    Clock clock;
    // What an operator tells of the network: its empty round trip, a frame on its slowest link.
    uint32_t base_rtt_us = 0, packet_ns = 0;
    Splitmix random; // for congestion controls that draw

    const CongestionOps *ca = nullptr;
    alignas(8) std::byte ca_private[168]{}; // as icsk_ca_priv

    // Undo: from where on a reduction may be taken back, how many retransmissions are not known to
    // be needless (negative: none was sent), when the first left, and the threshold before.
    uint32_t undo_marker = 0, retrans_stamp_ms = 0, prior_ssthresh = 0;
    int32_t undo_retrans = 0;
    bool has_undo = false, is_frto = false;
    // Reordering: most segments that one came late, how often, and what RACK waits for it.
    uint32_t reordering = 3, reorderings = 0;
    uint32_t spurious_retransmits = 0; // segments that the receiver reported to have come twice
    uint32_t reorder_steps = 1, reorder_persists = 0, reorder_delivered = 0;
    bool has_duplicate = false;
    // Marks of the round trip that ends with a segment, and what had come before it.
    dcgym_plb plb{};
    uint32_t round_end_seq = 0, round_delivered = 0, round_marked = 0;
    uint32_t fack = 0; // after the highest that was selectively acknowledged
    Block taken[3]{};  // blocks of the last acknowledgement that had any
    // The delivery rate: first sending and last delivery of those that are out, and what had been
    // delivered when a sender without data will have shown the path again; 0: it has data.
    int64_t first_sent_ns = 0, delivered_ns = 0;
    uint32_t app_limited = 0;

    std::vector<Segment> window;      // a power of two, by sequence number
    std::vector<RateMark> rate_marks; // beside it, where the congestion control samples rates

    Segment &segment(uint32_t seq) { return window[seq & (window.size() - 1)]; }
    void fetch_next() const {
        const size_t first = window.size() <= 64 ? 0 : snd_una & (window.size() - 1);
        fetch(window.data() + first, std::min<size_t>(window.size(), 64) * sizeof(Segment));
    }
    uint32_t packets_out() const { return snd_nxt - snd_una; }
    uint32_t packets_in_flight() const {
        return packets_out() - (sacked_out + lost_out) + retrans_out;
    }
    bool in_slow_start() const { return snd_cwnd < snd_ssthresh; }
    bool in_cwnd_reduction() const { return state == CaState::cwr || state == CaState::recovery; }
    uint32_t now_jiffies() const { return clock.jiffies(now_ns); }
    // As tcp_is_cwnd_limited: in slow start a window may be twice what the sender uses.
    bool is_limited_by_cwnd() const {
        return is_cwnd_limited || (in_slow_start() && snd_cwnd < 2 * max_packets_out);
    }
    template <typename State> State &private_state() {
        static_assert(sizeof(State) <= sizeof(ca_private));
        return *reinterpret_cast<State *>(ca_private);
    }
};

inline bool before(uint32_t left, uint32_t right) {
    return static_cast<int32_t>(left - right) < 0;
}

inline bool after(uint32_t left, uint32_t right) {
    return before(right, left);
}

} // namespace dcgym::twin::packets
