// SPDX-License-Identifier: Apache-2.0
#include "filter.hpp"

#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace dcgym {
namespace {

// An int argument: the kernel does not look at the upper half of its register.
constexpr std::uint64_t kInt = 0xffff'ffff;
// Families and protocols are numbered below it (linux/socket.h, linux/netlink.h).
constexpr int kNumbered = 64;
// linux/tiocl.h and ioctl_tty(2); both type for whoever reads the terminal.
constexpr std::initializer_list<std::uint64_t> kTypingIoctls = {TIOCSTI, TIOCLINUX};

constexpr std::initializer_list<const char *> kNotPermitted = {
    // Another namespace; `unshare` and `clone` are looked at below.
    "setns",
    // A mount needs a capability that no host has; this holds where a program gets it.
    "mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr",
    // The keyring of root is one for all its processes.
    "add_key", "request_key", "keyctl",
    // Without privilege on machines that permit it (kernel.unprivileged_bpf_disabled,
    // kernel.perf_event_paranoid).
    "bpf", "perf_event_open"};

// Programs take them for those of an older kernel. The flags of `clone3` lie in memory, which a
// filter cannot read, and io_uring opens sockets that no filter sees.
constexpr std::initializer_list<const char *> kUnknown = {"clone3", "io_uring_setup",
                                                          "io_uring_enter", "io_uring_register"};

// SO_PASSPIDFD and SO_PEERPIDFD of asm-generic/socket.h, since Linux 6.5: a descriptor of who is at
// the other end, of another host or of the machine. It leads to its files (pidfd_getfd) and to its
// network (PIDFD_GET_NET_NAMESPACE, by which netlink makes a link there).
constexpr std::uint64_t kPassPidfd = 76, kPeerPidfd = 77;

// Families whose sockets belong to a network namespace, or have a path (AF_UNIX).
constexpr std::initializer_list<int> kFamilies = {AF_UNIX,   AF_INET, AF_INET6, AF_NETLINK,
                                                  AF_PACKET, AF_KEY,  AF_XDP};
// Netlink of the network. Programs take a missing NETLINK_AUDIT for a kernel without it.
constexpr std::initializer_list<int> kNetlink = {
    NETLINK_ROUTE,     NETLINK_USERSOCK,       NETLINK_SOCK_DIAG, NETLINK_XFRM,
    NETLINK_NETFILTER, NETLINK_KOBJECT_UEVENT, NETLINK_GENERIC};

class Filter {
  public:
    Filter() : context_{seccomp_init(SCMP_ACT_ALLOW), seccomp_release} {
        if (!context_)
            throw std::runtime_error("libseccomp: no filter");
        // The other system calls of the machine, such as those of 32-bit programs.
        check(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)));
        check(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_NNP, 0));
    }

    void refuse(const char *name, int error, std::initializer_list<scmp_arg_cmp> where = {}) {
        const int number = seccomp_syscall_resolve_name(name);
        if (number == __NR_SCMP_ERROR)
            throw std::runtime_error(std::string("libseccomp does not know ") + name);
        check(seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(error), number,
                                     static_cast<unsigned>(where.size()), where.begin()));
    }

    void load() { check(seccomp_load(context_.get())); }

  private:
    static void check(int result) {
        if (result < 0)
            throw std::runtime_error(std::string("seccomp(2): ") + std::strerror(-result));
    }

    std::unique_ptr<void, decltype(&seccomp_release)> context_;
};

scmp_arg_cmp equals(unsigned argument, std::uint64_t mask, std::uint64_t value) {
    return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

/// Refuse a socket whose argument is none of some numbers, where the others have their values.
void permit_only(Filter &filter, unsigned argument, std::initializer_list<int> permitted, int error,
                 std::initializer_list<scmp_arg_cmp> others = {}) {
    const auto refuse = [&](scmp_arg_cmp where) {
        if (others.size() == 0)
            filter.refuse("socket", error, {where});
        else
            filter.refuse("socket", error, {*others.begin(), where});
    };
    for (int number = 0; number < kNumbered; ++number)
        if (std::find(permitted.begin(), permitted.end(), number) == permitted.end())
            refuse(equals(argument, kInt, static_cast<std::uint64_t>(number)));
    for (std::uint64_t bit = kNumbered; bit <= kInt; bit <<= 1)
        refuse(equals(argument, bit, bit));
}

} // namespace

void load_filter() {
    Filter filter;
    for (const char *name : kNotPermitted)
        filter.refuse(name, EPERM);
    for (const char *name : kUnknown)
        filter.refuse(name, ENOSYS);
    for (const char *name : {"unshare", "clone"})
        filter.refuse(name, EPERM, {equals(0, CLONE_NEWUSER, CLONE_NEWUSER)});
    for (const std::uint64_t request : kTypingIoctls)
        filter.refuse("ioctl", EPERM, {equals(1, kInt, request)});
    for (const auto &[name, option] :
         {std::pair{"setsockopt", kPassPidfd}, {"getsockopt", kPeerPidfd}})
        filter.refuse(name, ENOPROTOOPT, {equals(1, kInt, SOL_SOCKET), equals(2, kInt, option)});
    permit_only(filter, 0, kFamilies, EAFNOSUPPORT);
    permit_only(filter, 2, kNetlink, EPROTONOSUPPORT, {equals(0, kInt, AF_NETLINK)});
    filter.load();
}

} // namespace dcgym
