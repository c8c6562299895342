// SPDX-License-Identifier: Apache-2.0
// XDP on a veth pair, where what is sent vanishes without a word unless the other end takes it.
#pragma once

#include <cstdint>

namespace dcgym {

// The other end of a pair: its interface, and its network namespace unless that is the caller's.
struct Peer {
    uint32_t ifindex;
    int namespace_fd; // -1: the caller's
};

// Sends frames of DCGYM_LB_PROBE_TYPE from the peer until one comes back. 0, -ETIMEDOUT, -errno.
int probe_from(const Peer &peer);

} // namespace dcgym
