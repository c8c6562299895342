// SPDX-License-Identifier: Apache-2.0
// VIPs on switches, and what each further one would load there: R. Gandhi et al., "Duet: Cloud
// Scale Load Balancing with Hardware and Software", SIGCOMM 2014, section 4.
//
// Utilisations are of capacities as Duet takes them: of a link what is left after the reserve, of a
// switch its entries for DIPs. The tree is intact and its paths of equal cost share alike, so that
// a VIP's load is the same on all links of a kind: a choice among all switches costs as many
// operations as there are racks, not links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "demand.hpp"

namespace dcgym::placement {

constexpr int32_t on_muxes = -1;
constexpr double full = 1.0 + 1e-9; // sums of shares of 1 differ from it by rounding

struct Limits {
    uint32_t switch_entries; // DIPs of a switch: the least of its ECMP and tunnel entries
    uint32_t host_entries;   // VIPs on switches, of the whole data centre: routes in every switch
    double reserve;          // share of each link that is kept free
};

// What a VIP would lead to on a switch.
struct Offer {
    double link;   // largest utilisation of the links that the VIP would use
    double memory; // utilisation of the switch's entries
    double hops;   // mean links between source and DIP, weighed by bytes

    double worst() const { return link > memory ? link : memory; }
};

class State {
  public:
    // used: entries of each switch that other mappings hold; none if empty.
    State(const Fabric &fabric, std::shared_ptr<const Vips> vips, Limits limits,
          const std::vector<uint32_t> &used = {});

    const Fabric &fabric() const { return fabric_; }
    const Vips &vips() const { return *vips_; }
    const Limits &limits() const { return limits_; }
    const std::vector<int32_t> &where() const { return where_; }
    const Demand &demand() const { return demand_; } // of the VIP that was priced last

    // Writes the offer of every switch.
    void price(size_t vip, std::vector<Offer> &offers);

    void place(size_t vip, size_t number);
    void remove(size_t vip);

    // Largest utilisation after the VIP is on the switch: Duet's MRU.
    double mru(const Offer &offer) const;
    bool is_feasible(const Offer &offer) const {
        return offer.worst() <= full && n_placed_ < limits_.host_entries;
    }

    double link_max() const { return link_max_; }
    double link_mean() const;
    double memory_max() const { return memory_max_; }
    double placed_bps() const { return placed_bps_; }
    size_t n_placed() const { return n_placed_; }
    const std::vector<double> &links() const { return links_; }
    const std::vector<double> &memory() const { return memory_; }

  private:
    struct Tops;

    void price_racks(const Tops &tops, std::vector<Offer> &offers) const;
    void price_aggs(std::vector<Offer> &offers) const;
    void price_group(size_t group, double below, std::vector<Offer> &offers) const;
    void add(size_t vip, size_t number, double sign);
    void add_spread(const Place &place, double sign);
    void add_single(const Place &place, double sign);
    void raise(size_t link, double by);
    void refresh(size_t own);

    Fabric fabric_;
    std::shared_ptr<const Vips> vips_;
    Limits limits_;
    double rack_bps_, core_bps_; // less the reserve
    Demand demand_;
    std::vector<int32_t> where_;
    std::vector<double> links_, memory_;
    // Highest over what is left out: up and down of each rack; up and down of each aggregation
    // switch; of each container.
    std::vector<double> up_, down_, agg_up_, agg_down_, container_up_, container_down_;
    double link_max_ = 0, link_sum_ = 0, memory_max_ = 0, placed_bps_ = 0;
    size_t n_placed_ = 0;
};

} // namespace dcgym::placement
