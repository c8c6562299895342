// SPDX-License-Identifier: Apache-2.0
#include "netlink.hpp"

#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

#include "common/namespaces.hpp"

namespace dcgym {
namespace {

constexpr uint32_t kBucketHandle = 1U << 16; // 1:0
constexpr uint32_t kCheapPacketBytes = 4 * 1514;
constexpr uint64_t kPeakBytesPerSecond = 1'000'000'000'000; // 8 Tbit/s
constexpr int kReplyDeadlineMs = 2000;
constexpr size_t kBufferBytes = 64 * 1024;
// Acknowledgements wait in the socket, under 1 KB each in its buffer of 1 MB.
constexpr size_t kMostPending = 512;

// Every request has its own number, so that a late reply to one that failed is never taken for
// the reply to the next.
uint32_t next_sequence() {
    static std::atomic<uint32_t> counter{1};
    return counter.fetch_add(1, std::memory_order_relaxed);
}

// Major numbers for inner queues: under a number that it has, the kernel would keep the queue and
// what waits in it. 1 is the bucket's, those from 0x8000 are the kernel's to give.
uint32_t next_queue_handle() {
    static std::atomic<uint32_t> counter{0};
    return (2 + counter.fetch_add(1, std::memory_order_relaxed) % 0x7000) << 16;
}

// A socket answers one conversation at a time, and the collector's thread shares the sockets with
// the threads that change limits. Conversations last microseconds, so one lock serves all sockets.
std::mutex conversation;

[[noreturn]] void fail(const char *what, int error) {
    throw std::system_error(error, std::generic_category(), what);
}

void send_message(int fd, const nlmsghdr *message) {
    if (send(fd, message, message->nlmsg_len, 0) < 0)
        fail("netlink send", errno);
}

size_t receive(int fd, char *buffer) {
    ssize_t got = recv(fd, buffer, kBufferBytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        pollfd waiting{fd, POLLIN, 0};
        if (poll(&waiting, 1, kReplyDeadlineMs) == 0)
            fail("netlink reply", ETIMEDOUT);
        got = recv(fd, buffer, kBufferBytes, MSG_DONTWAIT);
    }
    if (got < 0)
        fail("netlink receive", errno);
    return static_cast<size_t>(got);
}

// Reads up to the acknowledgement of `sequence`; returns its errno as a positive number.
int await_ack(int fd, uint32_t sequence) {
    alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
    for (;;) {
        int left = static_cast<int>(receive(fd, buffer.data()));
        auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
        for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
            if (message->nlmsg_seq != sequence || message->nlmsg_type != NLMSG_ERROR)
                continue;
            auto *answer = static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message));
            return -answer->error;
        }
    }
}

nlmsghdr *put_qdisc_header(char *buffer, uint16_t flags, int ifindex) {
    nlmsghdr *message = mnl_nlmsg_put_header(buffer);
    message->nlmsg_type = RTM_NEWQDISC;
    message->nlmsg_flags = flags;
    auto *tc = static_cast<tcmsg *>(mnl_nlmsg_put_extra_header(message, sizeof(tcmsg)));
    tc->tcm_family = AF_UNSPEC;
    tc->tcm_ifindex = ifindex;
    tc->tcm_parent = TC_H_ROOT;
    tc->tcm_handle = kBucketHandle;
    return message;
}

void put_bucket_options(nlmsghdr *message, const TokenBucket &bucket) {
    const uint64_t rate_bytes = std::max<uint64_t>(bucket.rate_bps / 8, 1);
    tc_tbf_qopt options{};
    options.rate.rate = static_cast<uint32_t>(std::min<uint64_t>(rate_bytes, UINT32_MAX));
    options.rate.linklayer = TC_LINKLAYER_ETHERNET;
    options.peakrate.rate = UINT32_MAX;
    options.peakrate.linklayer = TC_LINKLAYER_ETHERNET;
    options.limit = bucket.limit_bytes;
    mnl_attr_put_strz(message, TCA_KIND, "tbf");
    nlattr *nest = mnl_attr_nest_start(message, TCA_OPTIONS);
    mnl_attr_put(message, TCA_TBF_PARMS, sizeof(options), &options);
    mnl_attr_put_u32(message, TCA_TBF_BURST, bucket.burst_bytes);
    // The peak rate is out of reach: its bucket is there for its size, above which TBF segments.
    mnl_attr_put_u64(message, TCA_TBF_PRATE64, kPeakBytesPerSecond);
    mnl_attr_put_u32(message, TCA_TBF_PBURST, bucket.packet_bytes);
    if (rate_bytes > UINT32_MAX)
        mnl_attr_put_u64(message, TCA_TBF_RATE64, rate_bytes);
    mnl_attr_nest_end(message, nest);
}

int open_rtnl_here() {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        fail("netlink socket", errno);
    const int bytes = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    // Acknowledge errors without echoing the request back.
    const int on = 1;
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    if (bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0) {
        const int error = errno;
        close(fd);
        fail("netlink bind", error);
    }
    return fd;
}

} // namespace

int open_rtnl(int namespace_fd) {
    return open_rtnls({namespace_fd}).front();
}

std::vector<int> open_rtnls(const std::vector<int> &namespace_fds) {
    std::vector<int> sockets;
    try {
        in_namespace(-1, [&] {
            for (const int namespace_fd : namespace_fds) {
                if (namespace_fd >= 0 && setns(namespace_fd, CLONE_NEWNET) != 0)
                    fail("setns", errno);
                sockets.push_back(open_rtnl_here());
            }
        });
    } catch (...) {
        for (const int fd : sockets)
            close(fd);
        throw;
    }
    return sockets;
}

uint32_t burst_for(uint64_t rate_bps, uint32_t frame_bytes) {
    const uint64_t millisecond = rate_bps / 8 / 1000;
    return static_cast<uint32_t>(std::clamp<uint64_t>(millisecond, 2 * frame_bytes, UINT32_MAX));
}

Batch::Batch(const char *what, std::initializer_list<int> tolerated, Answers answers)
    : what_(what), tolerated_(tolerated), answers_(answers), lock_(conversation) {}

void Batch::send(int rtnl_fd, nlmsghdr *message) {
    message->nlmsg_flags |= NLM_F_REQUEST | (answers_ == Answers::all ? NLM_F_ACK : 0);
    message->nlmsg_seq = next_sequence();
    send_message(rtnl_fd, message);
    pending_.push_back({rtnl_fd, message->nlmsg_seq});
    if (pending_.size() == kMostPending)
        settle();
}

void Batch::note(int error) {
    const bool fine = std::find(tolerated_.begin(), tolerated_.end(), error) != tolerated_.end();
    if (error != 0 && !fine && first_error_ == 0)
        first_error_ = error;
}

// Reads every acknowledgement even after a failure, so that none is left in a socket.
void Batch::read_all() {
    for (const Pending &request : pending_)
        note(await_ack(request.rtnl_fd, request.sequence));
}

void Batch::read_errors() {
    std::vector<pollfd> sockets;
    for (const Pending &request : pending_)
        if (sockets.empty() || sockets.back().fd != request.rtnl_fd)
            sockets.push_back({request.rtnl_fd, POLLIN, 0});
    if (poll(sockets.data(), sockets.size(), 0) < 0)
        fail("netlink poll", errno);
    for (const pollfd &socket : sockets)
        if (socket.revents != 0)
            drain(socket.fd);
}

// Late replies to earlier conversations have lower numbers than ours.
void Batch::drain(int rtnl_fd) {
    alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
    ssize_t got = 0;
    while ((got = recv(rtnl_fd, buffer.data(), buffer.size(), MSG_DONTWAIT)) >= 0) {
        int left = static_cast<int>(got);
        auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
        for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
            const auto age = static_cast<int32_t>(message->nlmsg_seq - pending_.front().sequence);
            if (message->nlmsg_type == NLMSG_ERROR && age >= 0)
                note(-static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message))->error);
        }
    }
    if (errno != EAGAIN)
        fail("netlink receive", errno);
}

void Batch::settle() {
    if (answers_ == Answers::all)
        read_all();
    else
        read_errors();
    pending_.clear();
}

void Batch::finish() {
    settle();
    lock_.unlock();
    if (first_error_ != 0)
        fail(what_, first_error_);
}

uint32_t packet_for(uint64_t link_rate_bps, uint32_t frame_bytes) {
    const uint64_t millisecond = link_rate_bps / 8 / 1000;
    const uint64_t bytes = std::max<uint64_t>(
        millisecond / 16, std::min<uint64_t>(millisecond / 2, kCheapPacketBytes));
    return static_cast<uint32_t>(std::clamp<uint64_t>(bytes, frame_bytes, UINT32_MAX));
}

TokenBucket make_bucket(int rtnl_fd, int ifindex, uint64_t rate_bps, uint32_t limit_bytes,
                        uint32_t frame_bytes, uint64_t link_rate_bps) {
    const uint32_t packet = packet_for(link_rate_bps, frame_bytes);
    const uint32_t burst = std::max(burst_for(rate_bps, frame_bytes), packet);
    return {rtnl_fd, ifindex, rate_bps, burst, limit_bytes, packet};
}

void set_token_buckets(const std::vector<TokenBucket> &buckets, BucketChange change) {
    const uint16_t flags = change == BucketChange::create ? NLM_F_CREATE | NLM_F_REPLACE : 0;
    Batch batch("token bucket", {}, Batch::Answers::errors);
    for (const TokenBucket &bucket : buckets) {
        alignas(nlmsghdr) std::array<char, 512> buffer;
        nlmsghdr *message = put_qdisc_header(buffer.data(), flags, bucket.ifindex);
        put_bucket_options(message, bucket);
        batch.send(bucket.rtnl_fd, message);
    }
    batch.finish();
}

// The queues first: with a bucket full of tokens some of what waits would leave.
void flush_token_buckets(const std::vector<TokenBucket> &buckets) {
    const uint32_t handle = next_queue_handle();
    Batch batch("empty a queue", {}, Batch::Answers::errors);
    for (const TokenBucket &bucket : buckets) {
        alignas(nlmsghdr) std::array<char, 256> buffer;
        const uint16_t flags = NLM_F_CREATE | NLM_F_REPLACE;
        nlmsghdr *message = put_qdisc_header(buffer.data(), flags, bucket.ifindex);
        auto *tc = static_cast<tcmsg *>(mnl_nlmsg_get_payload(message));
        tc->tcm_parent = TC_H_MAKE(kBucketHandle, 1);
        tc->tcm_handle = handle;
        const tc_fifo_qopt options{bucket.limit_bytes};
        mnl_attr_put_strz(message, TCA_KIND, "bfifo");
        mnl_attr_put(message, TCA_OPTIONS, sizeof(options), &options);
        batch.send(bucket.rtnl_fd, message);
    }
    batch.finish();
    set_token_buckets(buckets, BucketChange::modify);
}

} // namespace dcgym
