// SPDX-License-Identifier: Apache-2.0
// Shortest paths of equal cost over whatever is left of a data centre, link by link.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric.hpp"
#include "interrupt.hpp"

namespace dcgym::placement {

// What is there: switches by number, links by number and direction.
struct Health {
    std::vector<uint8_t> switch_is_up, link_is_up;
};

// Traffic between nodes: row d holds what each node, the Internet last, sends to switch d.
class Matrix {
  public:
    explicit Matrix(const Fabric &fabric)
        : nodes_(fabric.nodes()), bps_(fabric.switches() * fabric.nodes()) {}
    double &at(size_t destination, size_t source) { return bps_[destination * nodes_ + source]; }
    const double *to(size_t destination) const { return bps_.data() + destination * nodes_; }

  private:
    size_t nodes_;
    std::vector<double> bps_;
};

struct Loads {
    std::vector<double> link_bps;
    double hop_bps = 0;         // sum over all links
    double unreachable_bps = 0; // no path is left
};

// Every switch splits what it forwards alike among its next hops. The Internet is no transit, and
// its links to the core switches are neither counted nor ever down.
class Router {
  public:
    Router(const Fabric &fabric, Health health);

    // Throws Interrupted where the call is to end.
    void route(const Matrix &traffic, Loads &loads, Interrupt &call) const;

  private:
    struct Edge {
        uint32_t node;
        uint32_t out, in; // links to that node and from it
    };

    void connect(size_t lower, size_t upper, size_t up, size_t down);
    void send(size_t destination, const double *bps, Loads &loads) const;

    Fabric fabric_;
    Health health_;
    std::vector<std::vector<Edge>> edges_;
};

} // namespace dcgym::placement
