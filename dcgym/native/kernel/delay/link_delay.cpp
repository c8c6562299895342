// SPDX-License-Identifier: Apache-2.0
#include "link_delay.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/namespaces.hpp"
#include "link_delay.h"

namespace dcgym {
namespace {

constexpr const char *kDevice = "/dev/net/tun";
// Before the programs of switches and balancers (fabric.cpp).
constexpr uint32_t kPriority = 1;

[[noreturn]] void fail(const std::string &what, int error = errno) {
    throw std::system_error(error, std::generic_category(), what);
}

void control(int fd, unsigned long request, void *argument, const char *what) {
    if (ioctl(fd, request, argument) != 0)
        fail(what);
}

void attach(int ifindex, int program_fd) {
    bpf_tc_hook hook{};
    hook.sz = sizeof(hook);
    hook.ifindex = ifindex;
    hook.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
    const int created = bpf_tc_hook_create(&hook);
    if (created < 0 && created != -EEXIST)
        fail("add clsact for link delay", -created);
    hook.attach_point = BPF_TC_INGRESS;
    LIBBPF_OPTS(bpf_tc_opts, options);
    options.prog_fd = program_fd;
    options.handle = 1;
    options.priority = kPriority;
    options.flags = BPF_TC_F_REPLACE;
    const int attached = bpf_tc_attach(&hook, &options);
    if (attached < 0)
        fail("attach a program of link delay", -attached);
}

ifreq named(const std::string &name) {
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    return request;
}

void set_offload(int fd, bool keeps_gso) {
    constexpr unsigned long kTcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
#ifdef TUN_F_USO4
    // Linux 6.2; without it datagrams are segmented.
    if (keeps_gso && ioctl(fd, TUNSETOFFLOAD, kTcp | TUN_F_USO4 | TUN_F_USO6) == 0)
        return;
#endif
    if (ioctl(fd, TUNSETOFFLOAD, keeps_gso ? kTcp : TUN_F_CSUM) != 0)
        fail("set the offloads of a TAP");
}

void configure(int fd, const DelayedInterface &interface) {
    int number = interface.ifindex + DCGYM_DELAY_IFINDEX;
    control(fd, TUNSETIFINDEX, &number, "number a TAP");
    ifreq request = named(interface.tap);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    control(fd, TUNSETIFF, &request, "make a TAP");
    set_offload(fd, interface.keeps_gso);
    const Descriptor sock(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    request = named(interface.tap);
    request.ifr_qlen = static_cast<int>(interface.queue_packets);
    control(sock.get(), SIOCSIFTXQLEN, &request, "set the queue of a TAP");
    request = named(interface.tap);
    request.ifr_flags = IFF_UP | IFF_NOARP;
    control(sock.get(), SIOCSIFFLAGS, &request, "bring a TAP up");
}

} // namespace

LinkDelay::LinkDelay(const std::string &object_path)
    : object_(open_object(read_object(object_path), object_path)) {
    check(bpf_object__load(object_.get()), "cannot load the BPF object " + object_path);
    take_fd_ = program_fd(object_.get(), "delay_take");
    return_fd_ = program_fd(object_.get(), "delay_return");
}

int LinkDelay::join(const DelayedInterface &interface) const {
    int fd = -1;
    try {
        in_namespace(interface.namespace_fd, [&] {
            fd = open(kDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            if (fd < 0)
                fail(std::string("open ") + kDevice);
            configure(fd, interface);
            attach(interface.ifindex + DCGYM_DELAY_IFINDEX, return_fd_);
            attach(interface.ifindex, take_fd_);
        });
    } catch (...) {
        if (fd >= 0)
            close(fd);
        throw;
    }
    return fd;
}

std::map<std::string, uint64_t> transmit_drops(int namespace_fd) {
    std::map<std::string, uint64_t> drops;
    in_namespace(namespace_fd, [&] {
        // proc(5): name, then eight counters of what was received; of what was sent, the fourth.
        std::ifstream file("/proc/thread-self/net/dev");
        for (std::string line; std::getline(file, line);) {
            const size_t colon = line.find(':');
            if (colon == std::string::npos)
                continue;
            std::istringstream name(line.substr(0, colon)), counters(line.substr(colon + 1));
            std::string key;
            uint64_t value = 0;
            name >> key;
            for (int i = 0; i < 12; i++)
                counters >> value;
            drops[key] = value;
        }
    });
    return drops;
}

} // namespace dcgym
