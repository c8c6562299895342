// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace dcgym {
namespace {

/* Above what plans use for receivers, below 61000, where the kernel's own choice ends. */
constexpr std::uint64_t kFirstSourcePort = 16384;
constexpr std::uint64_t kSourcePorts = 44'000;
/* Odd and large: the next run of a flow does not meet the port of its neighbours. */
constexpr std::uint64_t kRepetitionStride = 7919;

std::uint16_t source_port(std::uint64_t number) {
    return static_cast<std::uint16_t>(kFirstSourcePort + number % kSourcePorts);
}

} // namespace

Fd &Fd::operator=(Fd &&other) noexcept {
    if (this != &other) {
        if (fd_ >= 0)
            close(fd_);
        fd_ = other.release();
    }
    return *this;
}

Fd::~Fd() {
    if (fd_ >= 0)
        close(fd_);
}

int Fd::release() {
    return std::exchange(fd_, -1);
}

int check(int result, const std::string &what) {
    if (result < 0)
        throw std::system_error(errno, std::generic_category(), what);
    return result;
}

sockaddr_in address(in_addr_t ip, std::uint16_t port) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    result.sin_addr.s_addr = ip;
    return result;
}

void bind_source(int fd, in_addr_t ip, std::uint64_t flow_id, std::uint64_t repetition) {
    sockaddr_in source = address(ip, source_port(flow_id + repetition * kRepetitionStride));
    const auto *raw = reinterpret_cast<const sockaddr *>(&source);
    if (bind(fd, raw, sizeof(source)) == 0)
        return;
    source.sin_port = 0;
    check(bind(fd, raw, sizeof(source)), "bind of a sender");
}

void bind_client(int fd, int family, std::uint64_t request_id) {
    if (family == AF_INET) {
        const sockaddr_in source = address(INADDR_ANY, source_port(request_id));
        bind(fd, reinterpret_cast<const sockaddr *>(&source), sizeof(source));
    } else {
        sockaddr_in6 source{};
        source.sin6_family = AF_INET6;
        source.sin6_port = htons(source_port(request_id));
        bind(fd, reinterpret_cast<const sockaddr *>(&source), sizeof(source));
    }
}

void Hosts::add(std::size_t index, const std::string &namespace_path, const std::string &ip) {
    if (index != hosts_.size())
        throw std::invalid_argument("host indexes must count from 0");
    Host host;
    host.netns = Fd{check(open(namespace_path.c_str(), O_RDONLY | O_CLOEXEC), namespace_path)};
    in_addr parsed{};
    if (inet_pton(AF_INET, ip.c_str(), &parsed) != 1) {
        throw std::invalid_argument("not an IPv4 address: " + ip);
    }
    host.ip = parsed.s_addr;
    hosts_.push_back(std::move(host));
}

void Hosts::clear() {
    hosts_.clear();
    entered_ = kNone;
}

Fd Hosts::open_socket(std::size_t index, int type, int protocol, int family) {
    // A socket belongs for ever to the namespace its thread was in when it was made, so the
    // process may stay in whichever namespace it entered last.
    if (entered_ != index) {
        check(setns(hosts_.at(index).netns.get(), CLONE_NEWNET), "setns");
        entered_ = index;
    }
    return Fd{check(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), "socket")};
}

} // namespace dcgym
