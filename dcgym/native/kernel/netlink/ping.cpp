// SPDX-License-Identifier: Apache-2.0
#include "ping.hpp"

#include <arpa/inet.h>
#include <linux/icmp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include "common/clock.hpp"
#include "common/namespaces.hpp"

namespace dcgym {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kResendNs = 200 * kMillisecond;

// RFC 1071, for an even number of bytes.
uint16_t checksum(const icmphdr &header) {
    std::array<uint16_t, sizeof(icmphdr) / 2> words{};
    memcpy(words.data(), &header, sizeof(header));
    uint32_t sum = 0;
    for (const uint16_t word : words)
        sum += word;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

// One host's socket, and which of the others have answered it.
class Pinger {
  public:
    Pinger(const std::vector<PingHost> &hosts, size_t self)
        : hosts_(hosts), self_(self), answered_(hosts.size()), left_(hosts.size() - 1) {
        answered_[self] = true;
        in_namespace(hosts[self].namespace_fd, [this] {
            fd_ = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);
            if (fd_ < 0)
                throw std::system_error(errno, std::generic_category(), "ICMP socket");
            const icmp_filter replies_only{~(1U << ICMP_ECHOREPLY)};
            setsockopt(fd_, SOL_RAW, ICMP_FILTER, &replies_only, sizeof(replies_only));
        });
    }
    ~Pinger() {
        if (fd_ >= 0)
            close(fd_);
    }
    Pinger(const Pinger &) = delete;
    Pinger &operator=(const Pinger &) = delete;

    void ask() const {
        for (size_t target = 0; target < hosts_.size(); target++)
            if (!answered_[target])
                send_to(target);
    }

    void listen() {
        std::array<char, 512> packet;
        for (;;) {
            const ssize_t got = recv(fd_, packet.data(), packet.size(), 0);
            if (got < 0)
                return;
            note(packet.data(), static_cast<size_t>(got));
        }
    }

    int fd() const { return fd_; }
    size_t left() const { return left_; }
    bool answered(size_t target) const { return answered_[target]; }

  private:
    void send_to(size_t target) const {
        icmphdr request{};
        request.type = ICMP_ECHO;
        request.un.echo.id = htons(static_cast<uint16_t>(self_));
        request.un.echo.sequence = htons(static_cast<uint16_t>(target));
        request.checksum = checksum(request);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = hosts_[target].address;
        // A host without a route or with a full queue is asked again, until the deadline.
        (void)sendto(fd_, &request, sizeof(request), 0, reinterpret_cast<sockaddr *>(&address),
                     sizeof(address));
    }

    void note(const char *packet, size_t bytes) {
        iphdr ip{};
        icmphdr reply{};
        if (bytes < sizeof(ip))
            return;
        memcpy(&ip, packet, sizeof(ip));
        if (bytes < ip.ihl * 4U + sizeof(reply))
            return;
        memcpy(&reply, packet + ip.ihl * 4U, sizeof(reply));
        const size_t target = ntohs(reply.un.echo.sequence);
        if (reply.type != ICMP_ECHOREPLY || ntohs(reply.un.echo.id) != static_cast<uint16_t>(self_))
            return;
        if (target >= hosts_.size() || ip.saddr != hosts_[target].address || answered_[target])
            return;
        answered_[target] = true;
        left_--;
    }

    const std::vector<PingHost> &hosts_;
    size_t self_;
    std::vector<bool> answered_;
    size_t left_;
    int fd_ = -1;
};

using Pingers = std::vector<std::unique_ptr<Pinger>>;

bool is_done(const Pingers &pingers) {
    return std::all_of(pingers.begin(), pingers.end(),
                       [](const auto &pinger) { return pinger->left() == 0; });
}

void wait_for_answers(Pingers &pingers, uint64_t until_ns) {
    std::vector<pollfd> watched;
    for (const auto &pinger : pingers)
        watched.push_back({pinger->fd(), POLLIN, 0});
    for (uint64_t now = monotonic_ns(); now < until_ns && !is_done(pingers); now = monotonic_ns()) {
        const int left_ms = static_cast<int>((until_ns - now) / kMillisecond) + 1;
        if (poll(watched.data(), watched.size(), left_ms) <= 0)
            continue;
        for (size_t host = 0; host < pingers.size(); host++)
            if (watched[host].revents != 0)
                pingers[host]->listen();
    }
}

} // namespace

std::vector<std::pair<size_t, size_t>> unreachable_pairs(const std::vector<PingHost> &hosts,
                                                         int deadline_ms) {
    Pingers pingers;
    for (size_t host = 0; host < hosts.size(); host++)
        pingers.push_back(std::make_unique<Pinger>(hosts, host));
    const uint64_t deadline_ns = monotonic_ns() + static_cast<uint64_t>(deadline_ms) * kMillisecond;
    while (!is_done(pingers) && monotonic_ns() < deadline_ns) {
        const uint64_t again_ns = std::min(monotonic_ns() + kResendNs, deadline_ns);
        for (const auto &pinger : pingers)
            pinger->ask();
        wait_for_answers(pingers, again_ns);
    }
    std::vector<std::pair<size_t, size_t>> lost;
    for (size_t source = 0; source < hosts.size(); source++)
        for (size_t target = 0; target < hosts.size(); target++)
            if (!pingers[source]->answered(target))
                lost.emplace_back(source, target);
    return lost;
}

} // namespace dcgym
