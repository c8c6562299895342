// SPDX-License-Identifier: Apache-2.0
#include "lifetime.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "netlink/netlink.hpp"

namespace dcgym {
namespace {

[[noreturn]] void fail(const std::string &what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void mount_or_fail(const char *type, const char *target) {
    if (mount(type, target, type, MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
        fail(std::string("mount ") + type + " on " + target);
}

} // namespace

void unshare_namespaces() {
    if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
        fail("unshare");
}

void mount_private() {
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        fail("mount --make-rprivate");
    mount_or_fail("proc", "/proc");
    mount_or_fail("sysfs", "/sys");
    mount_or_fail("bpf", "/sys/fs/bpf");
    mount_or_fail("tmpfs", "/run");
}

void die_with_parent() {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        fail("prctl PR_SET_PDEATHSIG");
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

void write_sysctl(int namespace_fd, const std::string &path, const std::string &value) {
    in_namespace(namespace_fd, [&] {
        const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            fail("open " + path);
        const ssize_t written = write(fd, value.data(), value.size());
        const int error = errno;
        close(fd);
        errno = error;
        if (written < 0)
            fail("write '" + value + "' to " + path);
    });
}

int open_udp(int namespace_fd) {
    int fd = -1;
    in_namespace(namespace_fd, [&] {
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            fail("socket");
    });
    return fd;
}

} // namespace dcgym
