// SPDX-License-Identifier: Apache-2.0
// The owner's requests: one message each on a SOCK_SEQPACKET socket, one reply.
//
//   link DELAY_NS JITTER_NS LOSS BYTES    and the descriptor of its TAP: one direction of a link
//   begin SEED                            flush, count from zero, draw from this seed
//   up LINK..., down LINK...              what is due while a link is down is dropped
//   flush [LINK...]                       drop what is held, of all links or of these
//
// The answer is "ok" and a number, or "error" and a reason.
#pragma once

#include <string>

#include "relay.hpp"

namespace dcgym::relay {

class Control {
  public:
    Control(Relay &relay, int fd) : relay_(relay), fd_(fd) {}

    /// Answers one request; false once the owner has closed the socket.
    bool serve();

  private:
    std::string answer(const std::string &request, int tap_fd);

    Relay &relay_;
    int fd_;
};

} // namespace dcgym::relay
