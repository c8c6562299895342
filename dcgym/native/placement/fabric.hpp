// SPDX-License-Identifier: Apache-2.0
// A data centre of containers: top-of-rack switches, aggregation switches, core switches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dcgym::placement {

// Each rack's switch has a link to every aggregation switch of its container; aggregation switch a
// of every container has one to each core switch of group a, as in a fat-tree (Al-Fares et al.,
// SIGCOMM 2008). Switches are numbered racks first, then aggregation, then core. Links have a
// direction and are numbered in four blocks: rack to aggregation, aggregation to rack, aggregation
// to core, core to aggregation. The Internet is one more source, behind all core switches.
struct Fabric {
    size_t containers, racks_per_container, aggs, cores_per_agg;
    double rack_bps, core_bps; // of a link from a rack, and to a core switch

    size_t racks() const { return containers * racks_per_container; }
    size_t switches() const { return racks() + containers * aggs + aggs * cores_per_agg; }
    size_t internet() const { return switches(); }
    size_t nodes() const { return switches() + 1; }
    size_t rack_links() const { return racks() * aggs; }
    size_t core_links() const { return containers * aggs * cores_per_agg; }
    size_t links() const { return 2 * (rack_links() + core_links()); }

    size_t container_of(size_t rack) const { return rack / racks_per_container; }
    size_t agg(size_t container, size_t index) const { return racks() + container * aggs + index; }
    size_t core(size_t group, size_t index) const {
        return racks() + containers * aggs + group * cores_per_agg + index;
    }

    size_t up(size_t rack, size_t agg_index) const { return rack * aggs + agg_index; }
    size_t down(size_t rack, size_t agg_index) const { return rack_links() + up(rack, agg_index); }
    size_t core_up(size_t container, size_t agg_index, size_t core_index) const {
        return 2 * rack_links() + (container * aggs + agg_index) * cores_per_agg + core_index;
    }
    size_t core_down(size_t container, size_t agg_index, size_t core_index) const {
        return core_links() + core_up(container, agg_index, core_index);
    }
    bool is_core_link(size_t link) const { return link >= 2 * rack_links(); }
    double rate_bps(size_t link) const { return is_core_link(link) ? core_bps : rack_bps; }
};

// Where a switch is in the tree.
enum class Tier { rack, agg, core };

struct Place {
    Tier tier;
    size_t container; // racks and aggregation switches
    size_t index;     // rack number; index of the aggregation switch; group of the core switch
    size_t core;      // index in its group
};

inline Place place_of(const Fabric &fabric, size_t number) {
    if (number < fabric.racks())
        return {Tier::rack, fabric.container_of(number), number, 0};
    const size_t above = number - fabric.racks();
    if (above < fabric.containers * fabric.aggs)
        return {Tier::agg, above / fabric.aggs, above % fabric.aggs, 0};
    const size_t core = above - fabric.containers * fabric.aggs;
    return {Tier::core, 0, core / fabric.cores_per_agg, core % fabric.cores_per_agg};
}

} // namespace dcgym::placement
