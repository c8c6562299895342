// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>

namespace dcgym {

/// Chooses the congestion control of a socket; an empty name keeps the host's default.
void set_congestion_control(int fd, const std::string &name);

/// Makes the coming close() drop the connection without a packet; the peer must be closed too.
void set_silent_close(int fd);

/// Makes the coming close() drop the connection at once, without TIME_WAIT.
void set_abortive_close(int fd);

/// Whether the call that failed last is to be repeated when the socket is ready.
inline bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace dcgym
