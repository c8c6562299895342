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

#include "mounts.hpp"

namespace dcgym {
namespace {

[[noreturn]] void fail(const std::string &what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// Devices that are nobody's; the others cannot be opened.
constexpr const char *kDevices[] = {"/dev/null",    "/dev/zero", "/dev/full",   "/dev/random",
                                    "/dev/urandom", "/dev/tty",  "/dev/net/tun"};

void mount_devices() {
    bind_to_itself("/dev", MS_NODEV | MS_NOSUID);
    for (const char *path : kDevices)
        if (access(path, F_OK) == 0)
            bind_to_itself(path);
    // Terminals and shared memory of their own.
    mount_or_fail("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=620");
    mount_or_fail("/dev/pts/ptmx", "/dev/ptmx", "", MS_BIND);
    if (access("/dev/shm", F_OK) == 0)
        mount_or_fail("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV);
}

} // namespace

void unshare_namespaces() {
    if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
        fail("unshare");
}

void mount_private() {
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        fail("mount --make-rprivate");
    mount_proc();
    replace_mount("sysfs", "/sys");
    mount_or_fail("bpf", "/sys/fs/bpf", "bpf", kHarmless);
    mount_or_fail("tmpfs", "/run", "tmpfs", kHarmless);
    mount_devices();
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
