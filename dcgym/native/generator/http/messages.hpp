// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "address.hpp"
#include "core/agenda.hpp"
#include "core/world.hpp"
#include "datagrams.hpp"
#include "server_messages.h"

namespace dcgym {

/// What all servers share of their messages with balancers.
struct MessageBoard {
    struct Counts {
        std::uint64_t answers = 0; /* sent, second ones too */
        std::uint64_t idle = 0;    /* sent */
        std::uint64_t lost = 0;    /* by `loss`, or since too many were under way */
        std::uint64_t unknown = 0; /* datagrams that are no probe of this server */
    };

    /* A virtual address at a balancer. */
    struct Frontend {
        std::size_t balancer;
        std::uint16_t vip;
    };

    std::vector<SocketAddress> balancers;                   /* none: the servers have no messages */
    std::vector<std::vector<std::size_t>> members;          /* servers of each virtual address */
    std::map<std::size_t, std::vector<Frontend>> listeners; /* whom each server tells, if idle */
    double loss = 0;                                        /* share of the messages */
    double copies = 0; /* share of the answers that are sent twice */
    std::int64_t least_delay_ns = 0, most_delay_ns = 0; /* beside the network's */
    std::uint64_t random = 0;                           /* state of the draws */
    Counts counts;

    std::size_t n_frontends() const { return balancers.size() * members.size(); }
    /// Idle servers register with these from now on, balancer by balancer.
    void set_listeners(const std::vector<std::size_t> &frontends);
    /// Uniform in [0, 1).
    double draw();
    std::int64_t draw_delay_ns();
};

/// A server's end of the messages: it answers probes with its load, and tells when it is idle.
class MessagePort {
  public:
    struct Load {
        std::uint32_t in_flight;
        std::int64_t latency_ns;
    };

    /// Listens at the host's own address; `load` is asked at each probe.
    MessagePort(World &world, MessageBoard &board, std::size_t host, std::size_t server,
                std::function<Load()> load);

    /// Registers with one of the front ends that want to know.
    void tell_idle();

  private:
    bool receive_one();
    void answer(const SocketAddress &to, dcgym_message message);
    void send(const SocketAddress &to, const dcgym_message &message);
    /// A message on its way here or from here: lost, perhaps, or later.
    void pass(std::function<void()> what);

    MessageBoard &board_;
    const std::size_t server_;
    const std::function<Load()> load_;
    Agenda later_;
    std::size_t waiting_ = 0;
    DatagramSocket socket_;
};

} // namespace dcgym
