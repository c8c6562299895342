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
};

/// Reads one connection; a closed or unconnected socket reads as zeros.
TcpSample sample_tcp(int fd);

} // namespace dcgym
