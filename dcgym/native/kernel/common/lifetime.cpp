// SPDX-License-Identifier: Apache-2.0
#include "lifetime.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

namespace dcgym {

void die_with_parent() {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        throw std::system_error(errno, std::generic_category(), "prctl PR_SET_PDEATHSIG");
}

void watch_owner(int channel_fd, int owner_pidfd) {
    std::thread([channel_fd, owner_pidfd] {
        // POLLRDHUP and POLLHUP only: readable requests are the interpreter's business.
        pollfd watched[2] = {{channel_fd, POLLRDHUP, 0}, {owner_pidfd, POLLIN, 0}};
        for (;;) {
            if (poll(watched, 2, -1) < 0 && errno != EINTR)
                break;
            if ((watched[0].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ||
                watched[1].revents)
                break;
        }
        _exit(0);
    }).detach();
}

} // namespace dcgym
