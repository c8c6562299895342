// SPDX-License-Identifier: Apache-2.0
// The kernel's part of link delay: a TAP beside an interface, and the programs of delay.bpf.c.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/bpf_object.hpp"

namespace dcgym {

// An interface whose arriving packets are to be delayed.
struct DelayedInterface {
    int namespace_fd; // -1: the caller's own
    int ifindex;
    std::string tap;        // name of the TAP, which lies in the same namespace
    uint32_t queue_packets; // that wait for the relay at most
    bool keeps_gso;         // else packets are segmented before the relay sees them
};

class LinkDelay {
  public:
    explicit LinkDelay(const std::string &object_path);

    // Makes the TAP and attaches the programs. Returns the TAP's descriptor, which the caller owns
    // and which keeps it alive.
    int join(const DelayedInterface &interface) const;

  private:
    ObjectPtr object_;
    int take_fd_ = -1, return_fd_ = -1;
};

// Packets that each interface of a namespace dropped instead of sending, by name.
std::map<std::string, uint64_t> transmit_drops(int namespace_fd);

} // namespace dcgym
