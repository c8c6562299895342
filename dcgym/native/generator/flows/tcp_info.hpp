// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dcgym {

/// What the kernel knows about one connection (TCP_INFO), in our units.
struct TcpSample {
    std::uint64_t acked_bytes = 0; /* application bytes the peer has acknowledged */
    std::uint64_t sacked_bytes = 0;
    std::uint64_t retransmits = 0;
    std::uint64_t srtt_ns = 0; /* 0 until measured */
    std::uint64_t min_rtt_ns = 0;
    std::uint64_t reorderings = 0;
    std::uint64_t spurious_retransmits = 0; /* duplicates that the peer reported (RFC 2883) */
    std::uint64_t out_of_order = 0;         /* segments received out of order */
};

/// Reads one connection; a closed or unconnected socket reads as zeros.
TcpSample sample_tcp(int fd);

} // namespace dcgym
