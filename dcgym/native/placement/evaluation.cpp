// SPDX-License-Identifier: Apache-2.0
#include "evaluation.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace dcgym::placement {

namespace {

// Direct paths: 4 links between containers, 2 of them to the core; 2 inside one; the Internet 2.
void add_direct(const Fabric &fabric, const Demand &demand, Outcome &out) {
    double same_container = 0, same_rack = 0;
    for (size_t c = 0; c < fabric.containers; c++)
        same_container += demand.container_bps[c] * demand.container_share[c];
    for (const uint32_t rack : demand.sources)
        same_rack += demand.source_bps[rack] * demand.share[rack];
    out.direct_hop_bps +=
        4 * demand.racks_bps - 2 * same_container - 2 * same_rack + 2 * demand.internet_bps;
    out.direct_core_bps += 2 * (demand.racks_bps - same_container) + demand.internet_bps;
}

// Loads of links by rack and container, spread alike over aggregation and core switches.
struct Spread {
    explicit Spread(const Fabric &of)
        : fabric(of), up(of.racks()), down(of.racks()), core_up(of.containers),
          core_down(of.containers) {}

    void send(size_t source, size_t destination, double bps) {
        if (source == destination)
            return;
        up[source] += bps;
        down[destination] += bps;
        cross(fabric.container_of(source), fabric.container_of(destination), bps);
    }
    void cross(size_t source, size_t destination, double bps) {
        if (source == destination)
            return;
        core_up[source] += bps;
        core_down[destination] += bps;
    }
    void from_core(size_t destination, double bps) {
        down[destination] += bps;
        core_down[fabric.container_of(destination)] += bps;
    }

    Loads loads() const {
        Loads made;
        made.link_bps.resize(fabric.links());
        const auto aggs = static_cast<double>(fabric.aggs);
        const double cores = aggs * static_cast<double>(fabric.cores_per_agg);
        for (size_t rack = 0; rack < fabric.racks(); rack++)
            for (size_t a = 0; a < fabric.aggs; a++) {
                made.link_bps[fabric.up(rack, a)] = up[rack] / aggs;
                made.link_bps[fabric.down(rack, a)] = down[rack] / aggs;
            }
        for (size_t c = 0; c < fabric.containers; c++)
            for (size_t a = 0; a < fabric.aggs; a++)
                for (size_t x = 0; x < fabric.cores_per_agg; x++) {
                    made.link_bps[fabric.core_up(c, a, x)] = core_up[c] / cores;
                    made.link_bps[fabric.core_down(c, a, x)] = core_down[c] / cores;
                }
        made.hop_bps = std::accumulate(made.link_bps.begin(), made.link_bps.end(), 0.0);
        return made;
    }

    const Fabric &fabric;
    std::vector<double> up, down, core_up, core_down;
};

// To all DIPs alike, of one source.
void send_to_all(const Fabric &fabric, const Demand &demand, size_t source, Spread &spread) {
    const double bps = demand.source_bps[source];
    const size_t own = fabric.container_of(source);
    spread.up[source] += bps * (1 - demand.share[source]);
    for (const uint32_t rack : demand.destinations)
        if (rack != source)
            spread.down[rack] += bps * demand.share[rack];
    for (size_t c = 0; c < fabric.containers; c++)
        spread.cross(own, c, bps * demand.container_share[c]);
}

void send_to_closest(const Fabric &fabric, const Demand &demand, size_t source, Spread &spread) {
    if (demand.share[source] > 0)
        return;
    const size_t own = fabric.container_of(source);
    const double near = demand.container_share[own];
    if (near <= 0)
        return send_to_all(fabric, demand, source, spread);
    for (const uint32_t rack : demand.destinations)
        if (fabric.container_of(rack) == own)
            spread.send(source, rack, demand.source_bps[source] * demand.share[rack] / near);
}

} // namespace

Outcome evaluate(const Fabric &fabric, const Vips &vips, const std::vector<int32_t> &where,
                 const std::vector<double> &mux_share, const Health &health, bool is_routed,
                 Interrupt &call) {
    Outcome out;
    out.by_switch_bps.assign(fabric.switches(), 0);
    std::optional<Matrix> routed;
    if (is_routed)
        routed.emplace(fabric);
    std::vector<double> to_muxes(fabric.nodes()), from_muxes(fabric.racks());
    Demand demand(fabric);
    double muxes = 0;
    for (size_t rack = 0; rack < fabric.racks(); rack++)
        muxes += health.switch_is_up[rack] ? mux_share[rack] : 0;
    for (size_t vip = 0; vip < vips.size(); vip++) {
        call.look();
        demand.load(vips, vip, &health.switch_is_up);
        const double total = demand.total_bps();
        const bool on_switch =
            where[vip] >= 0 && health.switch_is_up[static_cast<size_t>(where[vip])];
        out.total_bps += total;
        out.lost_bps += demand.lost_bps;
        if (demand.dips == 0 || (!on_switch && muxes <= 0)) {
            out.dark_bps += total;
            continue;
        }
        add_direct(fabric, demand, out);
        if (on_switch) {
            const auto number = static_cast<size_t>(where[vip]);
            out.switch_bps += total;
            out.by_switch_bps[number] += total;
            if (!routed)
                continue;
            for (const uint32_t rack : demand.sources)
                routed->at(number, rack) += demand.source_bps[rack];
            routed->at(number, fabric.internet()) += demand.internet_bps;
            for (const uint32_t rack : demand.destinations)
                routed->at(rack, number) += total * demand.share[rack];
        } else {
            out.mux_bps += total;
            for (const uint32_t rack : demand.sources)
                to_muxes[rack] += demand.source_bps[rack];
            to_muxes[fabric.internet()] += demand.internet_bps;
            for (const uint32_t rack : demand.destinations)
                from_muxes[rack] += total * demand.share[rack];
        }
    }
    if (!routed)
        return out;
    for (size_t rack = 0; rack < fabric.racks() && out.mux_bps > 0; rack++) {
        const double share = health.switch_is_up[rack] ? mux_share[rack] / muxes : 0;
        if (share <= 0)
            continue;
        for (size_t node = 0; node < fabric.nodes(); node++)
            routed->at(rack, node) += share * to_muxes[node];
        for (size_t other = 0; other < fabric.racks(); other++)
            routed->at(other, rack) += share * from_muxes[other];
    }
    // What stays on one switch crosses no link.
    for (size_t number = 0; number < fabric.switches(); number++)
        routed->at(number, number) = 0;
    Router(fabric, health).route(*routed, out.loads, call);
    return out;
}

Loads ideal(const Fabric &fabric, const Vips &vips, bool is_closest, Interrupt &call) {
    Spread spread(fabric);
    Demand demand(fabric);
    for (size_t vip = 0; vip < vips.size(); vip++) {
        call.look();
        demand.load(vips, vip);
        for (const uint32_t rack : demand.destinations)
            spread.from_core(rack, demand.internet_bps * demand.share[rack]);
        for (const uint32_t rack : demand.sources)
            if (is_closest)
                send_to_closest(fabric, demand, rack, spread);
            else
                send_to_all(fabric, demand, rack, spread);
    }
    return spread.loads();
}

} // namespace dcgym::placement
