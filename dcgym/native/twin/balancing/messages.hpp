// SPDX-License-Identifier: Apache-2.0
// Messages between balancers and servers of the rules that need them, on their way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dcgym::twin::balancing {

enum class MessageKind : uint8_t {
    probe,  // balancer to server
    answer, // and back
    idle,   // server to balancer, unasked
    flap,   // no message: the server's own clock, for the event `flapping`
    move,   // no message either: the clock of a `moving_load`, whose number stands for a server
};

struct Message {
    int64_t at_ns;
    uint64_t order; // of messages at the same time
    MessageKind kind;
    uint16_t frontend, server;
    uint32_t epoch;     // of the server
    uint64_t serial;    // of the probe
    int64_t sent_ns;    // of the probe
    uint32_t in_flight; // requests at the server
    int64_t latency_ns; // of its requests
};

class MessageQueue {
  public:
    bool empty() const { return heap_.empty(); }
    int64_t next_ns() const { return heap_.front().at_ns; }

    void push(Message message) {
        message.order = order_++;
        heap_.push_back(message);
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    Message pop() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        const Message first = heap_.back();
        heap_.pop_back();
        return first;
    }

  private:
    static bool later(const Message &a, const Message &b) {
        return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
    }

    std::vector<Message> heap_;
    uint64_t order_ = 0;
};

// What became of them since averages began.
struct MessageCounts {
    uint64_t probes = 0;     // sent
    uint64_t idle = 0;       // sent
    uint64_t reports = 0;    // of load, on SYN-ACKs through the balancer
    uint64_t answers = 0;    // in time
    uint64_t late = 0;       // answers after the time-out
    uint64_t repeated = 0;   // answers to a probe that was answered
    uint64_t lost = 0;       // probes, answers and idle messages
    uint64_t unanswered = 0; // the server, or the balancer, had gone
    uint64_t polls = 0;      // servers that balancers asked, whoever reads the answers
};

} // namespace dcgym::twin::balancing
