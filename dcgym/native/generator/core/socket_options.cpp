// SPDX-License-Identifier: Apache-2.0
#include "socket_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "hosts.hpp"

namespace dcgym {

void set_congestion_control(int fd, const std::string &name) {
    if (name.empty())
        return;
    check(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                     static_cast<socklen_t>(name.size())),
          "congestion control " + name);
}

void set_silent_close(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on));
}

void set_abortive_close(int fd) {
    const linger abort{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
}

} // namespace dcgym
