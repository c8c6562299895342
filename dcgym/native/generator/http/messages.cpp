// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <utility>

#include "core/clock.hpp"
#include "splitmix.h"

namespace dcgym {
namespace {

/* Beyond that many held back, messages are lost. */
constexpr std::size_t kMostWaiting = 4096;

Fd open_message_socket(World &world, std::size_t host) {
    Fd socket = world.hosts.open_socket(host, SOCK_DGRAM);
    const sockaddr_in local = address(world.hosts.ip(host), DCGYM_MESSAGE_PORT);
    check(bind(socket.get(), reinterpret_cast<const sockaddr *>(&local), sizeof(local)),
          "bind of the messages of host " + std::to_string(host));
    return socket;
}

bool is_probe(const dcgym_message &message, std::size_t server) {
    return message.magic == htons(DCGYM_MESSAGE_MAGIC) &&
           message.version == DCGYM_MESSAGE_VERSION && message.kind == DCGYM_MESSAGE_PROBE &&
           ntohs(message.server) == server;
}

} // namespace

double MessageBoard::draw() {
    __u64 state = random;
    const double found = static_cast<double>(dcgym_random(&state) >> 11) * 0x1p-53;
    random = state;
    return found;
}

std::int64_t MessageBoard::draw_delay_ns() {
    const auto range = static_cast<double>(most_delay_ns - least_delay_ns + 1);
    return most_delay_ns == 0 ? 0 : least_delay_ns + static_cast<std::int64_t>(draw() * range);
}

void MessageBoard::set_listeners(const std::vector<std::size_t> &frontends) {
    listeners.clear();
    for (const std::size_t number : frontends) {
        const std::size_t vip = number % members.size();
        for (const std::size_t server : members[vip])
            listeners[server].push_back({number / members.size(), static_cast<std::uint16_t>(vip)});
    }
}

MessagePort::MessagePort(World &world, MessageBoard &board, std::size_t host, std::size_t server,
                         std::function<Load()> load)
    : board_{board}, server_{server}, load_{std::move(load)}, later_{world.timetable},
      socket_{world, open_message_socket(world, host), [this] { return receive_one(); }} {}

bool MessagePort::receive_one() {
    SocketAddress from;
    socklen_t length = sizeof(sockaddr_storage);
    dcgym_message message{};
    const ssize_t got =
        recvfrom(socket_.fd(), &message, sizeof(message), MSG_TRUNC, from.raw(), &length);
    if (got < 0)
        return errno == EINTR || errno == ECONNREFUSED;
    if (got != sizeof(message) || !is_probe(message, server_))
        ++board_.counts.unknown;
    else
        pass([this, from, message] { answer(from, message); });
    return true;
}

void MessagePort::pass(std::function<void()> what) {
    if (waiting_ >= kMostWaiting || (board_.loss > 0 && board_.draw() < board_.loss)) {
        ++board_.counts.lost;
        return;
    }
    const std::int64_t delay_ns = board_.draw_delay_ns();
    if (delay_ns == 0)
        return what();
    ++waiting_;
    later_.add(now_ns() + delay_ns, [this, what = std::move(what)] {
        --waiting_;
        what();
    });
}

void MessagePort::answer(const SocketAddress &to, dcgym_message message) {
    const Load load = load_();
    message.kind = DCGYM_MESSAGE_ANSWER;
    message.in_flight = htonl(load.in_flight);
    message.latency_ns = htobe64(static_cast<std::uint64_t>(load.latency_ns));
    const int times = board_.copies > 0 && board_.draw() < board_.copies ? 2 : 1;
    for (int i = 0; i < times; ++i) {
        ++board_.counts.answers;
        pass([this, to, message] { send(to, message); });
    }
}

void MessagePort::tell_idle() {
    const auto own = board_.listeners.find(server_);
    if (own == board_.listeners.end())
        return;
    const auto n = static_cast<double>(own->second.size());
    const auto [balancer, vip] = own->second[static_cast<std::size_t>(board_.draw() * n)];
    dcgym_message message{};
    message.magic = htons(DCGYM_MESSAGE_MAGIC);
    message.version = DCGYM_MESSAGE_VERSION;
    message.kind = DCGYM_MESSAGE_IDLE;
    message.server = htons(static_cast<std::uint16_t>(server_));
    message.vip = htons(vip);
    ++board_.counts.idle;
    pass([this, to = board_.balancers.at(balancer), message] { send(to, message); });
}

// What does not fit into the socket's buffer is lost, as it may be on the way.
void MessagePort::send(const SocketAddress &to, const dcgym_message &message) {
    sendto(socket_.fd(), &message, sizeof(message), MSG_NOSIGNAL, to.raw(), to.length());
}

} // namespace dcgym
