// SPDX-License-Identifier: Apache-2.0
#include "demand.hpp"

namespace dcgym::placement {

double Vips::bps(size_t vip) const {
    double sum = internet_bps[vip];
    for (uint64_t i = source_start[vip]; i < source_start[vip + 1]; i++)
        sum += source_bps[i];
    return sum;
}

uint64_t Vips::dips(size_t vip) const {
    uint64_t sum = 0;
    for (uint64_t i = dip_start[vip]; i < dip_start[vip + 1]; i++)
        sum += dip_count[i];
    return sum;
}

Demand::Demand(const Fabric &fabric)
    : source_bps(fabric.racks()), share(fabric.racks()), container_bps(fabric.containers),
      container_share(fabric.containers), fabric_(fabric) {}

void Demand::load(const Vips &vips, size_t vip, const std::vector<uint8_t> *is_up) {
    for (const uint32_t rack : sources)
        source_bps[rack] = 0;
    for (const uint32_t rack : destinations)
        share[rack] = 0;
    container_bps.assign(fabric_.containers, 0);
    container_share.assign(fabric_.containers, 0);
    sources.clear();
    destinations.clear();
    racks_bps = lost_bps = 0;
    dips = 0;
    internet_bps = vips.internet_bps[vip];
    for (uint64_t i = vips.source_start[vip]; i < vips.source_start[vip + 1]; i++) {
        const uint32_t rack = vips.source_rack[i];
        const double bps = vips.source_bps[i];
        if (is_up != nullptr && !(*is_up)[rack]) {
            lost_bps += bps;
            continue;
        }
        sources.push_back(rack);
        source_bps[rack] = bps;
        container_bps[fabric_.container_of(rack)] += bps;
        racks_bps += bps;
    }
    for (uint64_t i = vips.dip_start[vip]; i < vips.dip_start[vip + 1]; i++) {
        const uint32_t rack = vips.dip_rack[i];
        if (vips.dip_count[i] == 0 || (is_up != nullptr && !(*is_up)[rack]))
            continue;
        destinations.push_back(rack);
        share[rack] = vips.dip_count[i];
        dips += vips.dip_count[i];
    }
    for (const uint32_t rack : destinations) {
        share[rack] /= static_cast<double>(dips);
        container_share[fabric_.container_of(rack)] += share[rack];
    }
}

} // namespace dcgym::placement
