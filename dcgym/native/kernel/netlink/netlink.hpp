// SPDX-License-Identifier: Apache-2.0
// Traffic control over rtnetlink: token buckets of many interfaces in one batch.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

struct nlmsghdr;

namespace dcgym {

// Opens a NETLINK_ROUTE socket in the network namespace of `namespace_fd` (-1: the caller's own).
// The socket keeps acting on that namespace in whatever process holds it.
int open_rtnl(int namespace_fd);
// The same for many namespaces, by one thread.
std::vector<int> open_rtnls(const std::vector<int> &namespace_fds);

// Requests that are all sent before their acknowledgements are read, on any number of sockets: one
// pass for a fabric. Holds the lock of all conversations while it lives.
class Batch {
  public:
    // Of which requests the kernel tells how they went. It has handled a request when send(2)
    // returns (netlink_unicast_kernel), so that silence is an acknowledgement too, and a cheaper
    // one.
    enum class Answers { all, errors };
    // `tolerated`: errors that are none.
    explicit Batch(const char *what, std::initializer_list<int> tolerated = {},
                   Answers answers = Answers::all);
    // Sends a request, and numbers it.
    void send(int rtnl_fd, nlmsghdr *message);
    // Reads what is left to read, and throws the first error.
    void finish();

  private:
    struct Pending {
        int rtnl_fd;
        uint32_t sequence;
    };
    void settle();
    void read_all();
    void read_errors();
    void drain(int rtnl_fd);
    void note(int error);

    const char *what_;
    std::vector<int> tolerated_;
    Answers answers_;
    std::unique_lock<std::mutex> lock_;
    std::vector<Pending> pending_;
    int first_error_ = 0;
};

struct TokenBucket {
    int rtnl_fd;
    int ifindex;
    uint64_t rate_bps;
    uint32_t burst_bytes;
    uint32_t limit_bytes;
    uint32_t packet_bytes; // larger ones are segmented before they are queued
};

// A bucket of an interface whose full rate is `link_rate_bps`, and its largest frame `frame_bytes`.
TokenBucket make_bucket(int rtnl_fd, int ifindex, uint64_t rate_bps, uint32_t limit_bytes,
                        uint32_t frame_bytes, uint64_t link_rate_bps);

// Bytes a token bucket may send at once. Two frames at least, so that a timer that fires late loses
// no tokens; beyond that one millisecond of the rate.
uint32_t burst_for(uint64_t rate_bps, uint32_t frame_bytes);
// Largest packet that may wait at an interface, whatever its rate is then: one beyond the burst of
// a later, lower rate would block the queue for ever. A 16th of a millisecond of the full rate, so
// that a change of the rate, which fills the bucket, gives little away. At least a frame, and of
// those of 1514 bytes two from 50 Mbit/s and four from 100 Mbit/s: packets of that size cost a
// loaded k=4 fat-tree 40 % less than those of two. Never more than half a bucket of the full rate:
// what a timer comes late beyond the time that the rest of the bucket lasts is lost to the link
// (2.5 % of it at 20 Mbit/s, were packets as large as the bucket).
uint32_t packet_for(uint64_t link_rate_bps, uint32_t frame_bytes);

enum class BucketChange { create, modify };

void set_token_buckets(const std::vector<TokenBucket> &buckets, BucketChange change);
// Empties the queues in place and fills the buckets with tokens: their inner queue is replaced.
// Doing that to the root would cost two RCU grace periods (dev_deactivate) an interface.
void flush_token_buckets(const std::vector<TokenBucket> &buckets);

struct Interface {
    int rtnl_fd;
    int ifindex;
};

} // namespace dcgym
