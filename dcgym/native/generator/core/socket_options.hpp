// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dcgym {

/// Chooses the congestion control of a socket; an empty name keeps the host's default.
void set_congestion_control(int fd, const std::string &name);

/// Makes the coming close() drop the connection without a packet; the peer must be closed too.
void set_silent_close(int fd);

/// Makes the coming close() drop the connection at once, without TIME_WAIT.
void set_abortive_close(int fd);

} // namespace dcgym
