// SPDX-License-Identifier: Apache-2.0
// What travels: one entry a packet of the kernel (an skb), which may hold several segments.
#pragma once

#include <cstdint>

namespace dcgym::twin::packets {

// Ethernet, IPv4, and TCP with timestamps. A network has one size of full frames, its MTU and 14.
constexpr uint32_t tcp_header_bytes = 14 + 20 + 32;
constexpr uint32_t syn_bytes = 74;
constexpr uint32_t sack_option_bytes = 4;
constexpr uint32_t sack_block_bytes = 8;
constexpr uint32_t udp_header_bytes = 14 + 20 + 8;

enum class Kind : uint8_t { data, ack, syn, syn_ack, handshake_ack, datagram };

enum Flag : uint8_t {
    ecn_capable = 1,
    congestion_experienced = 2,
    ecn_echo = 4,
};

struct Packet {
    int64_t time_ns; // at which it leaves the queue it is in
    uint32_t flow;
    uint32_t seq;   // first segment; of an acknowledgement: the one expected next
    uint32_t a;     // time stamp of data or a SYN-ACK, in us; of an acknowledgement: the echoed one
    uint32_t b;     // of data: the time stamp that it echoes, in us; of an acknowledgement: number
                    // of its note; of a datagram: its payload in bytes
    uint32_t bytes; // on the wire, with the headers of every segment
    Kind kind;
    uint8_t flags;
    uint8_t count; // segments of data or datagrams

    bool is_forward() const { return kind != Kind::ack && kind != Kind::syn_ack; }
    uint32_t segments() const { return kind == Kind::data || kind == Kind::datagram ? count : 1; }
};
static_assert(sizeof(Packet) == 32);

} // namespace dcgym::twin::packets
