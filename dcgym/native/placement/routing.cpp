// SPDX-License-Identifier: Apache-2.0
#include "routing.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::placement {

namespace {

constexpr uint32_t uncounted = UINT32_MAX, no_link = UINT32_MAX - 1;

} // namespace

Router::Router(const Fabric &fabric, Health health)
    : fabric_(fabric), health_(std::move(health)), edges_(fabric.nodes()) {
    for (size_t c = 0; c < fabric_.containers; c++)
        for (size_t a = 0; a < fabric_.aggs; a++) {
            for (size_t i = 0; i < fabric_.racks_per_container; i++) {
                const size_t rack = c * fabric_.racks_per_container + i;
                connect(rack, fabric_.agg(c, a), fabric_.up(rack, a), fabric_.down(rack, a));
            }
            for (size_t x = 0; x < fabric_.cores_per_agg; x++)
                connect(fabric_.agg(c, a), fabric_.core(a, x), fabric_.core_up(c, a, x),
                        fabric_.core_down(c, a, x));
        }
    const auto internet = static_cast<uint32_t>(fabric_.internet());
    for (size_t a = 0; a < fabric_.aggs; a++)
        for (size_t x = 0; x < fabric_.cores_per_agg; x++) {
            const size_t core = fabric_.core(a, x);
            edges_[internet].push_back({static_cast<uint32_t>(core), uncounted, no_link});
            edges_[core].push_back({internet, no_link, uncounted});
        }
}

void Router::connect(size_t lower, size_t upper, size_t up, size_t down) {
    const auto below = static_cast<uint32_t>(lower), above = static_cast<uint32_t>(upper);
    const auto to = static_cast<uint32_t>(up), from = static_cast<uint32_t>(down);
    edges_[lower].push_back({above, to, from});
    edges_[upper].push_back({below, from, to});
}

void Router::route(const Matrix &traffic, Loads &loads, Interrupt &call) const {
    loads.link_bps.assign(fabric_.links(), 0);
    loads.hop_bps = loads.unreachable_bps = 0;
    for (size_t destination = 0; destination < fabric_.switches(); destination++) {
        call.look();
        const double *bps = traffic.to(destination);
        if (std::any_of(bps, bps + fabric_.nodes(), [](double one) { return one > 0; }))
            send(destination, bps, loads);
    }
}

void Router::send(size_t destination, const double *bps, Loads &loads) const {
    const auto is_up = [&](uint32_t link) {
        return link == uncounted || (link != no_link && health_.link_is_up[link]);
    };
    const auto exists = [&](uint32_t node) {
        return node == fabric_.internet() || health_.switch_is_up[node];
    };
    constexpr uint32_t far = UINT32_MAX;
    std::vector<uint32_t> distance(fabric_.nodes(), far), order;
    std::vector<double> passing(bps, bps + fabric_.nodes());
    if (health_.switch_is_up[destination]) {
        distance[destination] = 0;
        order.push_back(static_cast<uint32_t>(destination));
    }
    for (size_t i = 0; i < order.size(); i++)
        for (const Edge &edge : edges_[order[i]])
            if (distance[edge.node] == far && is_up(edge.in) && exists(edge.node)) {
                distance[edge.node] = distance[order[i]] + 1;
                order.push_back(edge.node);
            }
    for (size_t node = 0; node < fabric_.nodes(); node++)
        if (distance[node] == far)
            loads.unreachable_bps += passing[node];
    std::vector<Edge> hops;
    for (size_t i = order.size(); i-- > 1;) {
        const uint32_t node = order[i];
        if (passing[node] <= 0)
            continue;
        hops.clear();
        for (const Edge &edge : edges_[node])
            if (distance[edge.node] != far && distance[edge.node] + 1 == distance[node] &&
                is_up(edge.out))
                hops.push_back(edge);
        const double each = passing[node] / static_cast<double>(hops.size());
        for (const Edge &edge : hops) {
            passing[edge.node] += each;
            if (edge.out == uncounted)
                continue;
            loads.link_bps[edge.out] += each;
            loads.hop_bps += each;
        }
    }
}

} // namespace dcgym::placement
