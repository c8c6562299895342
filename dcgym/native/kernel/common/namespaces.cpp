// SPDX-License-Identifier: Apache-2.0
#include "namespaces.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>
#include <thread>

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

void in_namespace(int namespace_fd, const std::function<void()> &body) {
    std::exception_ptr problem;
    std::thread([&] {
        try {
            if (namespace_fd >= 0 && setns(namespace_fd, CLONE_NEWNET) != 0)
                fail("setns");
            body();
        } catch (...) {
            problem = std::current_exception();
        }
    }).join();
    if (problem)
        std::rethrow_exception(problem);
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
