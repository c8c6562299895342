// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dcgym::relay {
namespace {

constexpr std::size_t kRequestBytes = 1 << 16;
constexpr std::int64_t kMostNs = 3'600'000'000'000;
constexpr std::int64_t kProbabilityOne = std::int64_t{1} << 32;

/// An owned descriptor, which `release` gives away.
class Owned {
  public:
    explicit Owned(int fd) : fd_(fd) {}
    ~Owned() {
        if (fd_ >= 0)
            close(fd_);
    }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    int get() const { return fd_; }
    void release() { fd_ = -1; }

  private:
    int fd_;
};

std::int64_t read_number(std::istream &in, std::int64_t most, const char *what) {
    std::int64_t value = 0;
    if (!(in >> value) || value < 0 || value > most)
        throw std::invalid_argument("wrong " + std::string{what});
    return value;
}

int take_descriptor(msghdr &message) {
    int fd = -1;
    for (cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    return fd;
}

LinkConfig read_link(std::istream &in) {
    LinkConfig config;
    config.delay_ns = read_number(in, kMostNs, "delay");
    config.jitter_ns = read_number(in, kMostNs, "jitter");
    config.loss = static_cast<std::uint64_t>(read_number(in, kProbabilityOne, "loss"));
    config.most_bytes = static_cast<std::uint64_t>(read_number(in, INT64_MAX, "limit"));
    return config;
}

std::vector<std::size_t> read_links(std::istream &in, std::size_t size) {
    std::vector<std::size_t> links;
    for (std::size_t link = 0; in >> link; links.push_back(link))
        if (link >= size)
            throw std::invalid_argument("wrong number of a link");
    if (!in.eof())
        throw std::invalid_argument("wrong number of a link");
    return links;
}

std::uint64_t flush(Relay &relay, std::istream &in) {
    if ((in >> std::ws).eof())
        return relay.flush();
    std::uint64_t dropped = 0;
    for (const std::size_t link : read_links(in, relay.size()))
        dropped += relay.flush(link);
    return dropped;
}

} // namespace

bool Control::serve() {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
    std::array<char, kRequestBytes> buffer;
    iovec data{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return false;
    Owned tap(take_descriptor(message));
    std::string reply;
    try {
        reply = answer({buffer.data(), static_cast<std::size_t>(got)}, tap.get());
        if (reply == "ok link")
            tap.release();
    } catch (const std::exception &error) {
        reply = "error " + std::string{error.what()};
    }
    send(fd_, reply.data(), reply.size(), MSG_NOSIGNAL);
    return true;
}

std::string Control::answer(const std::string &request, int tap_fd) {
    std::istringstream in{request};
    std::string command;
    in >> command;
    if (command == "link") {
        const LinkConfig config = read_link(in);
        if (tap_fd < 0)
            throw std::invalid_argument("a link without its TAP");
        relay_.add(config, tap_fd);
        return "ok link";
    }
    if (command == "begin")
        return "ok " + std::to_string(relay_.begin(
                           static_cast<std::uint64_t>(read_number(in, INT64_MAX, "seed"))));
    if (command == "flush")
        return "ok " + std::to_string(flush(relay_, in));
    if (command == "up" || command == "down") {
        const std::vector<std::size_t> links = read_links(in, relay_.size());
        for (const std::size_t link : links)
            relay_.set_up(link, command == "up");
        return "ok " + std::to_string(links.size());
    }
    throw std::invalid_argument("unknown command: " + command);
}

} // namespace dcgym::relay
