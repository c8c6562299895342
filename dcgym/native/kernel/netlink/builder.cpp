// SPDX-License-Identifier: Apache-2.0
#include "builder.hpp"

#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/namespaces.hpp"

namespace dcgym {
namespace {

constexpr int kLoopback = 1; // its index in every namespace

[[noreturn]] void fail(const std::string &what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void write_file(const Sysctl &sysctl) {
    const int fd = open(sysctl.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        fail("open " + sysctl.path);
    const ssize_t written = write(fd, sysctl.value.data(), sysctl.value.size());
    const int error = errno;
    close(fd);
    errno = error;
    if (written < 0)
        fail("write '" + sysctl.value + "' to " + sysctl.path);
}

int make_namespace(const std::vector<Sysctl> &sysctls) {
    if (unshare(CLONE_NEWNET) != 0)
        fail("unshare");
    for (const Sysctl &sysctl : sysctls)
        write_file(sysctl);
    const int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail("open the new network namespace");
    return fd;
}

class Message {
  public:
    Message(uint16_t type, uint16_t flags) : header_(mnl_nlmsg_put_header(buffer_.data())) {
        header_->nlmsg_type = type;
        header_->nlmsg_flags = flags;
    }
    template <typename Header> Header *extra() {
        return static_cast<Header *>(mnl_nlmsg_put_extra_header(header_, sizeof(Header)));
    }
    operator nlmsghdr *() { return header_; }

  private:
    alignas(nlmsghdr) std::array<char, 1024> buffer_;
    nlmsghdr *header_;
};

// TCP shall not build what the token bucket would segment again. It takes its longest header off
// the limit (MAX_TCP_HEADER, some 300 bytes), and fills the rest with whole segments.
uint32_t gso_limit_for(uint64_t rate_bps, uint32_t mtu) {
    constexpr uint32_t kIpAndTcp = 52, kHeaderRoom = 400, kLegacyLimit = 65536;
    const uint32_t frame = mtu + ETH_HLEN, payload = mtu - kIpAndTcp;
    const uint32_t limit = packet_for(rate_bps, frame) / frame * payload + kHeaderRoom;
    return rate_bps == 0 || limit >= kLegacyLimit ? 0 : limit;
}

void put_end(nlmsghdr *message, const LinkEnd &end) {
    mnl_attr_put_strz(message, IFLA_IFNAME, end.name.c_str());
    mnl_attr_put(message, IFLA_ADDRESS, end.mac.size(), end.mac.data());
    // The kernel makes one queue a processor unless told otherwise; a port has one queue.
    mnl_attr_put_u32(message, IFLA_MTU, end.mtu);
    mnl_attr_put_u32(message, IFLA_NUM_TX_QUEUES, 1);
    mnl_attr_put_u32(message, IFLA_NUM_RX_QUEUES, 1);
    if (const uint32_t most = gso_limit_for(end.rate_bps, end.mtu))
        mnl_attr_put_u32(message, IFLA_GSO_MAX_SIZE, most);
    if (end.namespace_fd >= 0)
        mnl_attr_put_u32(message, IFLA_NET_NS_FD, static_cast<uint32_t>(end.namespace_fd));
}

void put_pair(Message &message, const LinkEnd &a, const LinkEnd &b) {
    message.extra<ifinfomsg>()->ifi_index = a.ifindex;
    put_end(message, a);
    nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);
    mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
    nlattr *data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
    nlattr *peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
    // The peer's attributes follow a link header of its own inside the nest.
    message.extra<ifinfomsg>()->ifi_index = b.ifindex;
    put_end(message, b);
    mnl_attr_nest_end(message, peer);
    mnl_attr_nest_end(message, data);
    mnl_attr_nest_end(message, info);
}

void send_up(Batch &batch, int rtnl_fd, int ifindex) {
    Message message(RTM_NEWLINK, 0);
    auto *link = message.extra<ifinfomsg>();
    link->ifi_index = ifindex;
    link->ifi_flags = link->ifi_change = IFF_UP;
    batch.send(rtnl_fd, message);
}

void put_address(nlmsghdr *message, uint16_t attribute, const Address &address) {
    mnl_attr_put(message, attribute, address.size(), address.bytes.data());
}

void send_address(Batch &batch, const HostAddress &host) {
    Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
    auto *address = message.extra<ifaddrmsg>();
    address->ifa_family = host.address.family;
    address->ifa_index = static_cast<unsigned>(host.ifindex);
    address->ifa_prefixlen = static_cast<uint8_t>(8 * host.address.size());
    // Nobody else can have it: an IPv6 address is usable at once.
    address->ifa_flags = IFA_F_NODAD;
    put_address(message, IFA_LOCAL, host.address);
    batch.send(host.rtnl_fd, message);
}

void send_neighbour(Batch &batch, const HostAddress &host, const Gateway &gateway) {
    Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
    auto *entry = message.extra<ndmsg>();
    entry->ndm_family = host.address.family;
    entry->ndm_ifindex = host.ifindex;
    entry->ndm_state = NUD_PERMANENT;
    put_address(message, NDA_DST, gateway.address);
    mnl_attr_put(message, NDA_LLADDR, gateway.mac.size(), gateway.mac.data());
    batch.send(host.rtnl_fd, message);
}

void send_route(Batch &batch, const HostAddress &host, const Gateway &gateway) {
    Message message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
    auto *route = message.extra<rtmsg>();
    route->rtm_family = host.address.family;
    route->rtm_dst_len = gateway.prefix_bits;
    route->rtm_table = RT_TABLE_MAIN;
    route->rtm_protocol = RTPROT_BOOT;
    route->rtm_type = RTN_UNICAST;
    // The gateway lies on no network of the host: it is taken to be at the other end of the wire.
    route->rtm_flags = RTNH_F_ONLINK;
    put_address(message, RTA_DST, gateway.network);
    put_address(message, RTA_GATEWAY, gateway.address);
    mnl_attr_put_u32(message, RTA_OIF, static_cast<uint32_t>(host.ifindex));
    batch.send(host.rtnl_fd, message);
}

} // namespace

size_t Address::size() const {
    return family == AF_INET ? 4 : bytes.size();
}

std::vector<int> make_namespaces(size_t count, const std::vector<Sysctl> &sysctls) {
    std::vector<int> fds;
    try {
        // A thread of its own ends in the last namespace; the caller stays where it is.
        in_namespace(-1, [&] {
            for (size_t i = 0; i < count; i++)
                fds.push_back(make_namespace(sysctls));
        });
    } catch (...) {
        for (const int fd : fds)
            close(fd);
        throw;
    }
    return fds;
}

void make_links(int rtnl_fd, const std::vector<std::pair<LinkEnd, LinkEnd>> &links) {
    Batch batch("make a veth pair");
    for (const auto &[a, b] : links) {
        Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
        put_pair(message, a, b);
        batch.send(rtnl_fd, message);
    }
    batch.finish();
}

void set_up(const std::vector<Interface> &interfaces) {
    Batch batch("bring an interface up");
    for (const auto &[rtnl_fd, ifindex] : interfaces)
        send_up(batch, rtnl_fd, ifindex);
    batch.finish();
}

void configure_hosts(const std::vector<HostAddress> &hosts, const Gateway &gateway) {
    Batch batch("configure a host");
    for (const HostAddress &host : hosts) {
        send_up(batch, host.rtnl_fd, kLoopback);
        send_address(batch, host);
        send_neighbour(batch, host, gateway);
        send_route(batch, host, gateway);
    }
    batch.finish();
}

} // namespace dcgym
