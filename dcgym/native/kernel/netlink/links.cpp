// SPDX-License-Identifier: Apache-2.0
#include "links.hpp"

#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>

#include "netlink.hpp"

namespace dcgym {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;
constexpr int kReplyDeadlineMs = 10'000;
constexpr unsigned kRunning = IFF_UP | IFF_LOWER_UP;

// A batch of requests waits for the acknowledgement of each; one batch at a time.
std::mutex batch;

[[noreturn]] void fail(const char *what, int error) {
    throw std::system_error(error, std::generic_category(), what);
}

void subscribe(int fd) {
    const int group = RTNLGRP_LINK;
    if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0)
        fail("netlink membership", errno);
}

void send_link(int fd, int ifindex, bool up, uint32_t sequence) {
    alignas(nlmsghdr) std::array<char, 128> buffer;
    nlmsghdr *message = mnl_nlmsg_put_header(buffer.data());
    message->nlmsg_type = RTM_NEWLINK;
    message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    message->nlmsg_seq = sequence;
    auto *link = static_cast<ifinfomsg *>(mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg)));
    link->ifi_family = AF_UNSPEC;
    link->ifi_index = ifindex;
    link->ifi_change = IFF_UP;
    link->ifi_flags = up ? IFF_UP : 0;
    if (send(fd, message, message->nlmsg_len, 0) < 0)
        fail("netlink send", errno);
}

size_t receive(int fd, std::array<char, kBufferBytes> &buffer) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, kReplyDeadlineMs) == 0)
        fail("netlink reply", ETIMEDOUT);
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0)
        fail("netlink receive", errno);
    return static_cast<size_t>(got);
}

// Hands every message to `visit` until it returns true.
template <typename Visit> void read_until(int fd, Visit visit) {
    alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
    for (;;) {
        int left = static_cast<int>(receive(fd, buffer));
        auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
        for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left))
            if (visit(message))
                return;
    }
}

int error_of(const nlmsghdr *message) {
    return -static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message))->error;
}

} // namespace

LinkMonitor::LinkMonitor() : news_fd_(open_rtnl(-1)), request_fd_(open_rtnl(-1)) {
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
    subscribe(news_fd_);
}

LinkMonitor::~LinkMonitor() {
    for (const int fd : {news_fd_, request_fd_, stop_fd_})
        if (fd >= 0)
            close(fd);
}

bool LinkMonitor::wait(int timeout_ms) {
    std::array<pollfd, 2> watched{{{news_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}}};
    const int ready = poll(watched.data(), watched.size(), timeout_ms);
    if (ready < 0 && errno != EINTR)
        fail("poll", errno);
    if (stopped_ || ready <= 0)
        return false;
    // What the reports say does not matter, only that there are some: `running` asks for the state,
    // which also covers those that the kernel had no room for (ENOBUFS).
    alignas(nlmsghdr) std::array<char, 8192> ignored;
    while (recv(news_fd_, ignored.data(), ignored.size(), MSG_DONTWAIT) >= 0 || errno == ENOBUFS) {
    }
    return true;
}

void LinkMonitor::stop() {
    stopped_ = true;
    const uint64_t one = 1;
    if (write(stop_fd_, &one, sizeof(one)) < 0)
        fail("eventfd", errno);
}

std::vector<int> LinkMonitor::running() {
    const std::lock_guard guard(batch);
    alignas(nlmsghdr) std::array<char, 128> buffer;
    nlmsghdr *request = mnl_nlmsg_put_header(buffer.data());
    request->nlmsg_type = RTM_GETLINK;
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request->nlmsg_seq = 1;
    mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg));
    mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    if (send(request_fd_, request, request->nlmsg_len, 0) < 0)
        fail("netlink send", errno);
    std::vector<int> found;
    int error = 0;
    read_until(request_fd_, [&](const nlmsghdr *message) {
        if (message->nlmsg_type == NLMSG_ERROR)
            error = error_of(message);
        if (message->nlmsg_type != RTM_NEWLINK)
            return true;
        auto *link = static_cast<ifinfomsg *>(mnl_nlmsg_get_payload(message));
        if ((link->ifi_flags & kRunning) == kRunning)
            found.push_back(link->ifi_index);
        return false;
    });
    if (error != 0)
        fail("netlink dump of links", error);
    return found;
}

void LinkMonitor::set_up(const std::vector<int> &ifindexes, bool up) {
    const std::lock_guard guard(batch);
    uint32_t sequence = 1;
    for (const int ifindex : ifindexes)
        send_link(request_fd_, ifindex, up, sequence++);
    size_t left = ifindexes.size();
    int first_error = 0;
    if (left == 0)
        return;
    read_until(request_fd_, [&](const nlmsghdr *message) {
        if (message->nlmsg_type != NLMSG_ERROR)
            return false;
        if (error_of(message) != 0 && first_error == 0)
            first_error = error_of(message);
        return --left == 0;
    });
    if (first_error != 0)
        fail(up ? "take interface up" : "take interface down", first_error);
}

} // namespace dcgym
