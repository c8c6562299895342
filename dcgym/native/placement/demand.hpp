// SPDX-License-Identifier: Apache-2.0
// Traffic of the VIPs, and that of one of them by rack and by container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric.hpp"

namespace dcgym::placement {

// Rows of VIPs: row v of a table is what lies between start[v] and start[v + 1].
struct Vips {
    std::vector<uint64_t> source_start;
    std::vector<uint32_t> source_rack;
    std::vector<double> source_bps;
    std::vector<double> internet_bps; // one number a VIP
    std::vector<uint64_t> dip_start;
    std::vector<uint32_t> dip_rack;
    std::vector<uint32_t> dip_count; // DIPs in that rack

    size_t size() const { return internet_bps.size(); }
    double bps(size_t vip) const;
    uint64_t dips(size_t vip) const;
};

// One VIP. Racks appear once in a row.
class Demand {
  public:
    explicit Demand(const Fabric &fabric);

    // Sources and DIPs of racks that are down are left out: the other DIPs take their share.
    void load(const Vips &vips, size_t vip, const std::vector<uint8_t> *is_up = nullptr);

    double total_bps() const { return racks_bps + internet_bps; }

    std::vector<uint32_t> sources, destinations; // racks
    std::vector<double> source_bps;              // of every rack
    std::vector<double> share;                   // of the DIPs, of every rack
    std::vector<double> container_bps, container_share;
    double racks_bps = 0, internet_bps = 0;
    double lost_bps = 0; // of sources that are down
    uint64_t dips = 0;

  private:
    Fabric fabric_;
};

} // namespace dcgym::placement
