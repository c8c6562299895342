// SPDX-License-Identifier: Apache-2.0
#include "netlink.hpp"

#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/gen_stats.h>
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
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace dcgym {
namespace {

constexpr uint32_t kFrameBytes = 1514;
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

// A socket answers one conversation at a time, and the collector's thread shares the sockets with
// the threads that change limits. Conversations last microseconds, so one lock serves all sockets.
std::mutex conversation;

[[noreturn]] void fail(const char *what, int error) {
	throw std::system_error(error, std::generic_category(), what);
}

void send_message(int fd, const nlmsghdr *message) {
	if (send(fd, message, message->nlmsg_len, 0) < 0) fail("netlink send", errno);
}

size_t receive(int fd, char *buffer) {
	ssize_t got = recv(fd, buffer, kBufferBytes, MSG_DONTWAIT);
	if (got < 0 && errno == EAGAIN) {
		pollfd waiting{fd, POLLIN, 0};
		if (poll(&waiting, 1, kReplyDeadlineMs) == 0) fail("netlink reply", ETIMEDOUT);
		got = recv(fd, buffer, kBufferBytes, MSG_DONTWAIT);
	}
	if (got < 0) fail("netlink receive", errno);
	return static_cast<size_t>(got);
}

// Reads up to the acknowledgement of `sequence`; returns its errno as a positive number.
int await_ack(int fd, uint32_t sequence) {
	alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
	for (;;) {
		int left = static_cast<int>(receive(fd, buffer.data()));
		auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			if (message->nlmsg_seq != sequence || message->nlmsg_type != NLMSG_ERROR) continue;
			auto *answer = static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message));
			return -answer->error;
		}
	}
}

nlmsghdr *put_qdisc_header(char *buffer, uint16_t type, uint16_t flags, int ifindex) {
	nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	message->nlmsg_type = type;
	message->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
	message->nlmsg_seq = next_sequence();
	auto *tc = static_cast<tcmsg *>(mnl_nlmsg_put_extra_header(message, sizeof(tcmsg)));
	tc->tcm_family = AF_UNSPEC;
	tc->tcm_ifindex = ifindex;
	tc->tcm_parent = TC_H_ROOT;
	tc->tcm_handle = type == RTM_NEWQDISC ? TC_H_MAKE(1U << 16, 0) : 0;
	return message;
}

void put_bucket_options(nlmsghdr *message, const TokenBucket &bucket) {
	const uint64_t rate_bytes = std::max<uint64_t>(bucket.rate_bps / 8, 1);
	tc_tbf_qopt options{};
	options.rate.rate = static_cast<uint32_t>(std::min<uint64_t>(rate_bytes, UINT32_MAX));
	options.rate.linklayer = TC_LINKLAYER_ETHERNET;
	options.limit = bucket.limit_bytes;
	mnl_attr_put_strz(message, TCA_KIND, "tbf");
	nlattr *nest = mnl_attr_nest_start(message, TCA_OPTIONS);
	mnl_attr_put(message, TCA_TBF_PARMS, sizeof(options), &options);
	mnl_attr_put_u32(message, TCA_TBF_BURST, bucket.burst_bytes);
	if (rate_bytes > UINT32_MAX) mnl_attr_put_u64(message, TCA_TBF_RATE64, rate_bytes);
	mnl_attr_nest_end(message, nest);
}

struct Pending {
	int fd;
	uint32_t sequence;
};

void dump(int fd, uint16_t type, const void *extra, size_t extra_bytes,
          const std::function<void(const nlmsghdr *)> &visit) {
	const std::lock_guard guard(conversation);
	alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
	nlmsghdr *request = mnl_nlmsg_put_header(buffer.data());
	request->nlmsg_type = type;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	const uint32_t sequence = request->nlmsg_seq = next_sequence();
	memcpy(mnl_nlmsg_put_extra_header(request, extra_bytes), extra, extra_bytes);
	send_message(fd, request);
	for (;;) {
		int left = static_cast<int>(receive(fd, buffer.data()));
		auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			if (message->nlmsg_seq != sequence) continue;
			if (message->nlmsg_type == NLMSG_DONE) return;
			if (message->nlmsg_type == NLMSG_ERROR)
				fail("netlink dump", -static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message))->error);
			visit(message);
		}
	}
}

// libmnl's own loops rely on C's conversion from void *, which C++ does not have.
template <typename Visit>
void each_attribute(const void *first, int bytes, Visit visit) {
	auto *attribute = static_cast<const nlattr *>(first);
	while (mnl_attr_ok(attribute, bytes)) {
		visit(attribute);
		bytes -= MNL_ALIGN(attribute->nla_len);
		attribute = mnl_attr_next(attribute);
	}
}

template <typename Visit>
void each_attribute(const nlmsghdr *message, size_t header_bytes, Visit visit) {
	const void *first = mnl_nlmsg_get_payload_offset(message, header_bytes);
	const auto *end = static_cast<const char *>(mnl_nlmsg_get_payload_tail(message));
	each_attribute(first, static_cast<int>(end - static_cast<const char *>(first)), visit);
}

void read_basic(const nlattr *attribute, QueueStats &stats) {
	gnet_stats_basic basic{};
	memcpy(&basic, mnl_attr_get_payload(attribute),
	       std::min<size_t>(sizeof(basic), mnl_attr_get_payload_len(attribute)));
	stats.tx_bytes = basic.bytes;
	if (stats.tx_packets == 0) stats.tx_packets = basic.packets;
}

void read_queue(const nlattr *attribute, QueueStats &stats) {
	gnet_stats_queue queue{};
	memcpy(&queue, mnl_attr_get_payload(attribute),
	       std::min<size_t>(sizeof(queue), mnl_attr_get_payload_len(attribute)));
	stats.backlog_bytes = queue.backlog;
	stats.drops = queue.drops;
	stats.overlimits = queue.overlimits;
}

QueueStats read_stats(const nlattr *nest) {
	QueueStats stats{};
	each_attribute(mnl_attr_get_payload(nest), mnl_attr_get_payload_len(nest), [&](const nlattr *attribute) {
		const auto type = mnl_attr_get_type(attribute);
		if (type == TCA_STATS_BASIC) read_basic(attribute, stats);
		if (type == TCA_STATS_QUEUE) read_queue(attribute, stats);
		// 64-bit packet count, present once 32 bits no longer hold it (Linux 5.4).
		if (type == TCA_STATS_PKT64) stats.tx_packets = mnl_attr_get_u64(attribute);
	});
	return stats;
}

QueueStats parse_queue(const nlmsghdr *message) {
	QueueStats stats{};
	each_attribute(message, sizeof(tcmsg), [&](const nlattr *attribute) {
		if (mnl_attr_get_type(attribute) == TCA_STATS2) stats = read_stats(attribute);
	});
	return stats;
}

// The answer, if there is one, comes before the acknowledgement: the kernel stays silent about an
// interface without a queue of its own.
QueueStats await_queue(const Pending &request, int &error) {
	alignas(nlmsghdr) static thread_local std::array<char, kBufferBytes> buffer;
	QueueStats stats{};
	for (;;) {
		int left = static_cast<int>(receive(request.fd, buffer.data()));
		auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			if (message->nlmsg_seq != request.sequence) continue;
			if (message->nlmsg_type == RTM_NEWQDISC) stats = parse_queue(message);
			if (message->nlmsg_type != NLMSG_ERROR) continue;
			error = -static_cast<nlmsgerr *>(mnl_nlmsg_get_payload(message))->error;
			return stats;
		}
	}
}

int open_rtnl_here() {
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0) fail("netlink socket", errno);
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

}  // namespace

void in_namespace(int namespace_fd, const std::function<void()> &body) {
	std::exception_ptr problem;
	std::thread([&] {
		try {
			if (namespace_fd >= 0 && setns(namespace_fd, CLONE_NEWNET) != 0) fail("setns", errno);
			body();
		} catch (...) {
			problem = std::current_exception();
		}
	}).join();
	if (problem) std::rethrow_exception(problem);
}

int open_rtnl(int namespace_fd) {
	return open_rtnls({namespace_fd}).front();
}

std::vector<int> open_rtnls(const std::vector<int> &namespace_fds) {
	std::vector<int> sockets;
	try {
		in_namespace(-1, [&] {
			for (const int namespace_fd : namespace_fds) {
				if (namespace_fd >= 0 && setns(namespace_fd, CLONE_NEWNET) != 0) fail("setns", errno);
				sockets.push_back(open_rtnl_here());
			}
		});
	} catch (...) {
		for (const int fd : sockets) close(fd);
		throw;
	}
	return sockets;
}

uint32_t burst_for(uint64_t rate_bps) {
	const uint64_t millisecond = rate_bps / 8 / 1000;
	return static_cast<uint32_t>(std::clamp<uint64_t>(millisecond, 2 * kFrameBytes, UINT32_MAX));
}

Batch::Batch(const char *what, std::initializer_list<int> tolerated)
    : what_(what), tolerated_(tolerated), lock_(conversation) {}

void Batch::send(int rtnl_fd, nlmsghdr *message) {
	message->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	message->nlmsg_seq = next_sequence();
	send_message(rtnl_fd, message);
	pending_.push_back({rtnl_fd, message->nlmsg_seq});
	if (pending_.size() == kMostPending) settle();
}

// Reads every acknowledgement even after a failure, so that none is left in a socket.
void Batch::settle() {
	for (const Pending &request : pending_) {
		const int error = await_ack(request.rtnl_fd, request.sequence);
		const bool fine = std::find(tolerated_.begin(), tolerated_.end(), error) != tolerated_.end();
		if (error != 0 && !fine && first_error_ == 0) first_error_ = error;
	}
	pending_.clear();
}

void Batch::finish() {
	settle();
	lock_.unlock();
	if (first_error_ != 0) fail(what_, first_error_);
}

void set_token_buckets(const std::vector<TokenBucket> &buckets, BucketChange change) {
	const uint16_t flags = change == BucketChange::create ? NLM_F_CREATE | NLM_F_REPLACE : 0;
	Batch batch("token bucket");
	for (const TokenBucket &bucket : buckets) {
		alignas(nlmsghdr) std::array<char, 512> buffer;
		nlmsghdr *message = put_qdisc_header(buffer.data(), RTM_NEWQDISC, flags, bucket.ifindex);
		put_bucket_options(message, bucket);
		batch.send(bucket.rtnl_fd, message);
	}
	batch.finish();
}

void remove_root_qdiscs(const std::vector<TokenBucket> &buckets) {
	Batch batch("remove qdisc", {ENOENT, EINVAL});
	for (const TokenBucket &bucket : buckets) {
		alignas(nlmsghdr) std::array<char, 256> buffer;
		batch.send(bucket.rtnl_fd, put_qdisc_header(buffer.data(), RTM_DELQDISC, 0, bucket.ifindex));
	}
	batch.finish();
}

void dump_queues(int rtnl_fd, const std::function<void(int, const QueueStats &)> &visit) {
	tcmsg request{};
	dump(rtnl_fd, RTM_GETQDISC, &request, sizeof(request), [&](const nlmsghdr *message) {
		auto *tc = static_cast<tcmsg *>(mnl_nlmsg_get_payload(message));
		if (tc->tcm_parent != TC_H_ROOT) return;
		each_attribute(message, sizeof(*tc), [&](const nlattr *attribute) {
			if (mnl_attr_get_type(attribute) == TCA_STATS2) visit(tc->tcm_ifindex, read_stats(attribute));
		});
	});
}

std::vector<QueueStats> root_queues(const std::vector<Interface> &interfaces) {
	const std::lock_guard guard(conversation);
	std::vector<Pending> pending;
	pending.reserve(interfaces.size());
	for (const auto &[rtnl_fd, ifindex] : interfaces) {
		alignas(nlmsghdr) std::array<char, 64> buffer;
		// Kernels before 6.8 answer only a request that wants its echo.
		nlmsghdr *message = put_qdisc_header(buffer.data(), RTM_GETQDISC, NLM_F_ECHO, ifindex);
		send_message(rtnl_fd, message);
		pending.push_back({rtnl_fd, message->nlmsg_seq});
	}
	std::vector<QueueStats> queues;
	queues.reserve(pending.size());
	int first_error = 0;
	for (const Pending &request : pending) {
		int error = 0;
		queues.push_back(await_queue(request, error));
		if (error != 0 && error != ENOENT && first_error == 0) first_error = error;
	}
	if (first_error != 0) fail("host queue", first_error);
	return queues;
}

void dump_links(int rtnl_fd, const std::function<void(int, const LinkStats &)> &visit) {
	if_stats_msg request{};
	request.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64);
	dump(rtnl_fd, RTM_GETSTATS, &request, sizeof(request), [&](const nlmsghdr *message) {
		auto *header = static_cast<if_stats_msg *>(mnl_nlmsg_get_payload(message));
		each_attribute(message, sizeof(*header), [&](const nlattr *attribute) {
			if (mnl_attr_get_type(attribute) != IFLA_STATS_LINK_64) return;
			rtnl_link_stats64 stats{};
			memcpy(&stats, mnl_attr_get_payload(attribute),
			       std::min<size_t>(sizeof(stats), mnl_attr_get_payload_len(attribute)));
			visit(header->ifindex, {stats.rx_bytes, stats.rx_packets});
		});
	});
}

}  // namespace dcgym
