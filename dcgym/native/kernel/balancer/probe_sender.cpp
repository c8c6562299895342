// SPDX-License-Identifier: Apache-2.0
#include "probe_sender.hpp"

#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "balancer_fields.hpp"

namespace dcgym {
namespace {

constexpr uint8_t probe_ttl = 64;
// A late probe tells of another time than that of its request; as the generator.
constexpr int nice_value = -10;

uint16_t ip_checksum(const iphdr &header) {
    std::array<uint16_t, sizeof(iphdr) / 2> words;
    std::memcpy(words.data(), &header, sizeof(header));
    uint32_t sum = 0;
    for (const uint16_t word : words)
        sum += word;
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~(sum + (sum >> 16)));
}

int open_socket(uint32_t ifindex) {
    // Of protocol 0 it receives nothing.
    const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(ifindex);
    if (socket >= 0 && bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0)
        return socket;
    const int error = errno;
    const Descriptor closing(socket);
    return -error;
}

} // namespace

void ProbeSender::RingDeleter::operator()(ring_buffer *ring) const {
    ring_buffer__free(ring);
}

ProbeSender::ProbeSender(int probe_map_fd, uint32_t ifindex, const ProbeEnd &from,
                         const std::map<uint32_t, std::pair<std::string, std::string>> &servers)
    : frames_{} {
    for (const auto &[server, end] : servers) {
        check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
        frames_[server] = frame_to(from, {end.first, end.second});
    }
    socket_.reset(
        check(open_socket(ifindex), "cannot send probes by interface " + std::to_string(ifindex)));
    const int ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ended_.reset(check(ended < 0 ? -errno : ended, "cannot make an event"));
    ring_.reset(ring_buffer__new(probe_map_fd, take, this, nullptr));
    if (!ring_)
        throw_backend_error("cannot read the balancer's probes", errno);
    thread_ = std::thread([this] { loop(); });
}

// UDP without a checksum, as IPv4 allows (RFC 768).
ProbeSender::Frame ProbeSender::frame_to(const ProbeEnd &from, const ProbeEnd &to) {
    const dcgym_lb_target own = parse_mac("mac", from.mac), its = parse_mac("mac", to.mac);
    ethhdr eth{};
    std::memcpy(eth.h_source, own.mac, sizeof(own.mac));
    std::memcpy(eth.h_dest, its.mac, sizeof(its.mac));
    eth.h_proto = htons(ETH_P_IP);
    iphdr ip{};
    ip.version = 4;
    ip.ihl = sizeof(ip) / 4;
    ip.tot_len = htons(header_bytes - sizeof(eth) + sizeof(dcgym_message));
    ip.ttl = probe_ttl;
    ip.protocol = IPPROTO_UDP;
    ip.saddr = parse_endpoint("address", {from.address}).ipv4;
    ip.daddr = parse_endpoint("address", {to.address}).ipv4;
    ip.check = ip_checksum(ip);
    udphdr udp{};
    udp.source = udp.dest = htons(DCGYM_MESSAGE_PORT);
    udp.len = htons(sizeof(udp) + sizeof(dcgym_message));
    Frame frame;
    uint8_t *at = frame.bytes.data();
    std::memcpy(at, &eth, sizeof(eth));
    std::memcpy(at + sizeof(eth), &ip, sizeof(ip));
    std::memcpy(at + sizeof(eth) + sizeof(ip), &udp, sizeof(udp));
    frame.is_server = true;
    return frame;
}

int ProbeSender::take(void *sender, void *data, size_t bytes) {
    dcgym_lb_probe probe;
    if (bytes >= sizeof(probe)) {
        std::memcpy(&probe, data, sizeof(probe));
        static_cast<const ProbeSender *>(sender)->send(probe);
    }
    return 0;
}

// A probe that finds no room in the interface's queue is lost, as one on the way may be.
void ProbeSender::send(const dcgym_lb_probe &probe) const {
    Frame frame = frames_[probe.server % DCGYM_LB_SERVERS];
    if (!frame.is_server)
        return;
    dcgym_message message{};
    message.magic = htons(DCGYM_MESSAGE_MAGIC);
    message.version = DCGYM_MESSAGE_VERSION;
    message.kind = DCGYM_MESSAGE_PROBE;
    message.server = htons(static_cast<uint16_t>(probe.server));
    message.vip = htons(static_cast<uint16_t>(probe.vip));
    message.serial = htobe64(probe.serial);
    std::memcpy(frame.bytes.data() + header_bytes, &message, sizeof(message));
    ::send(socket_.get(), frame.bytes.data(), frame.bytes.size(), MSG_NOSIGNAL);
}

void ProbeSender::loop() const {
    // Without the privilege it runs as it is.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice_value);
    std::array<pollfd, 2> ready{
        {{ring_buffer__epoll_fd(ring_.get()), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
    while (ready[1].revents == 0) {
        if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR)
            return;
        ring_buffer__consume(ring_.get());
    }
}

void ProbeSender::close() {
    if (!thread_.joinable())
        return;
    const uint64_t one = 1;
    // An event that has room cannot refuse it.
    [[maybe_unused]] const ssize_t written = write(ended_.get(), &one, sizeof(one));
    thread_.join();
    ring_.reset();
    socket_.reset();
    ended_.reset();
}

} // namespace dcgym
