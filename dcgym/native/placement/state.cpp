// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::placement {

namespace {

// The highest of some values, and the highest of all others.
struct Top {
    void take(double value, size_t at) {
        if (value > first) {
            second = first;
            first = value;
            where = at;
        } else if (value > second) {
            second = value;
        }
    }
    double without(size_t at) const { return at == where ? second : first; }

    double first = 0, second = 0;
    size_t where = SIZE_MAX;
};

double highest(const std::vector<double> &values, size_t first, size_t count) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    return *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count));
}

} // namespace

// A VIP on any rack loads all links of a kind alike but for those of that rack and container.
struct State::Tops {
    Top up, down, core_up, core_down;
};

State::State(const Fabric &fabric, std::shared_ptr<const Vips> vips, Limits limits,
             const std::vector<uint32_t> &used)
    : fabric_(fabric), vips_(std::move(vips)), limits_(limits),
      rack_bps_(fabric.rack_bps * (1 - limits.reserve)),
      core_bps_(fabric.core_bps * (1 - limits.reserve)), demand_(fabric_),
      where_(vips_->size(), on_muxes), links_(fabric.links()), memory_(fabric.switches()),
      up_(fabric.racks()), down_(fabric.racks()), agg_up_(fabric.containers * fabric.aggs),
      agg_down_(agg_up_), container_up_(fabric.containers), container_down_(fabric.containers) {
    for (size_t number = 0; number < used.size(); number++) {
        memory_[number] = static_cast<double>(used[number]) / limits.switch_entries;
        memory_max_ = std::max(memory_max_, memory_[number]);
    }
}

double State::mru(const Offer &offer) const {
    return std::max({offer.worst(), link_max_, memory_max_});
}

double State::link_mean() const {
    return link_sum_ / static_cast<double>(links_.size());
}

void State::price(size_t vip, std::vector<Offer> &offers) {
    demand_.load(*vips_, vip);
    offers.resize(fabric_.switches());
    const double total = demand_.total_bps(), spread = static_cast<double>(fabric_.aggs);
    const double cores = spread * static_cast<double>(fabric_.cores_per_agg);
    Tops tops;
    for (const uint32_t rack : demand_.sources)
        tops.up.take(up_[rack] + demand_.source_bps[rack] / spread / rack_bps_, rack);
    for (const uint32_t rack : demand_.destinations)
        tops.down.take(down_[rack] + total * demand_.share[rack] / spread / rack_bps_, rack);
    for (size_t c = 0; c < fabric_.containers; c++) {
        if (demand_.container_bps[c] > 0)
            tops.core_up.take(container_up_[c] + demand_.container_bps[c] / cores / core_bps_, c);
        if (demand_.container_share[c] > 0)
            tops.core_down.take(
                container_down_[c] + total * demand_.container_share[c] / cores / core_bps_, c);
    }
    price_racks(tops, offers);
    price_aggs(offers);
    const double entries = static_cast<double>(demand_.dips) / limits_.switch_entries;
    for (size_t number = 0; number < offers.size(); number++)
        offers[number].memory = memory_[number] + entries;
}

void State::price_racks(const Tops &tops, std::vector<Offer> &offers) const {
    const double total = demand_.total_bps(), spread = static_cast<double>(fabric_.aggs);
    const double cores = spread * static_cast<double>(fabric_.cores_per_agg);
    const double per_byte = total > 0 ? 1 / total : 0;
    for (size_t c = 0, rack = 0; c < fabric_.containers; c++) {
        const double inside = demand_.container_bps[c], share = demand_.container_share[c];
        const double core = std::max(
            {tops.core_up.without(c), tops.core_down.without(c),
             total * (1 - share) > 0 ? container_up_[c] + total * (1 - share) / cores / core_bps_
                                     : 0,
             total - inside > 0 ? container_down_[c] + (total - inside) / cores / core_bps_ : 0});
        // Racks reach others of their container over 2 links, the rest over 4, the Internet 2.
        const double hops =
            4 * demand_.racks_bps - 2 * inside + 2 * demand_.internet_bps + total * (4 - 2 * share);
        for (size_t i = 0; i < fabric_.racks_per_container; i++, rack++) {
            const double own = demand_.source_bps[rack], own_share = demand_.share[rack];
            const double up = total * (1 - own_share) / spread / rack_bps_;
            const double down = (total - own) / spread / rack_bps_;
            offers[rack].link = std::max({core, tops.up.without(rack), tops.down.without(rack),
                                          up_[rack] + up, down_[rack] + down});
            offers[rack].hops = (hops - 2 * own - 2 * total * own_share) * per_byte;
        }
    }
}

void State::price_aggs(std::vector<Offer> &offers) const {
    const double total = demand_.total_bps(), per_byte = total > 0 ? 1 / total : 0;
    const auto cores = static_cast<double>(fabric_.cores_per_agg);
    for (size_t a = 0; a < fabric_.aggs; a++) {
        double below = 0; // all traffic of the racks passes this index
        for (const uint32_t rack : demand_.sources)
            below =
                std::max(below, links_[fabric_.up(rack, a)] + demand_.source_bps[rack] / rack_bps_);
        for (const uint32_t rack : demand_.destinations)
            below = std::max(below, links_[fabric_.down(rack, a)] +
                                        total * demand_.share[rack] / rack_bps_);
        Top up, down;
        for (size_t c = 0; c < fabric_.containers; c++) {
            const double inside = demand_.container_bps[c], share = demand_.container_share[c];
            const size_t at = c * fabric_.aggs + a;
            if (inside > 0)
                up.take(agg_up_[at] + inside / cores / core_bps_, c);
            if (share > 0)
                down.take(agg_down_[at] + total * share / cores / core_bps_, c);
        }
        for (size_t c = 0; c < fabric_.containers; c++) {
            const double inside = demand_.container_bps[c], share = demand_.container_share[c];
            const size_t at = c * fabric_.aggs + a;
            Offer &offer = offers[fabric_.agg(c, a)];
            offer.link = std::max({below, up.without(c), down.without(c)});
            if (total * (1 - share) > 0)
                offer.link =
                    std::max(offer.link, agg_up_[at] + total * (1 - share) / cores / core_bps_);
            if (total - inside > 0)
                offer.link =
                    std::max(offer.link, agg_down_[at] + (total - inside) / cores / core_bps_);
            const double to = 3 * demand_.racks_bps - 2 * inside + demand_.internet_bps;
            offer.hops = (to + total * (3 - 2 * share)) * per_byte;
        }
        price_group(a, below, offers);
    }
}

void State::price_group(size_t group, double below, std::vector<Offer> &offers) const {
    const double total = demand_.total_bps(), per_byte = total > 0 ? 1 / total : 0;
    for (size_t core = 0; core < fabric_.cores_per_agg; core++) {
        double link = below;
        for (size_t c = 0; c < fabric_.containers; c++) {
            const double inside = demand_.container_bps[c], share = demand_.container_share[c];
            if (inside > 0)
                link = std::max(link, links_[fabric_.core_up(c, group, core)] + inside / core_bps_);
            if (share > 0)
                link = std::max(link, links_[fabric_.core_down(c, group, core)] +
                                          total * share / core_bps_);
        }
        Offer &offer = offers[fabric_.core(group, core)];
        offer.link = link;
        offer.hops = 2 * (demand_.racks_bps + total) * per_byte;
    }
}

void State::place(size_t vip, size_t number) {
    if (where_[vip] != on_muxes)
        remove(vip);
    add(vip, number, 1);
    where_[vip] = static_cast<int32_t>(number);
    n_placed_++;
}

void State::remove(size_t vip) {
    if (where_[vip] == on_muxes)
        return;
    add(vip, static_cast<size_t>(where_[vip]), -1);
    where_[vip] = on_muxes;
    n_placed_--;
    link_max_ = *std::max_element(links_.begin(), links_.end());
    memory_max_ = *std::max_element(memory_.begin(), memory_.end());
}

void State::add(size_t vip, size_t number, double sign) {
    demand_.load(*vips_, vip);
    const Place place = place_of(fabric_, number);
    if (place.tier == Tier::rack)
        add_spread(place, sign);
    else
        add_single(place, sign);
    memory_[number] += sign * static_cast<double>(demand_.dips) / limits_.switch_entries;
    memory_max_ = std::max(memory_max_, memory_[number]);
    placed_bps_ += sign * demand_.total_bps();
    refresh(number);
}

// On a rack: over all aggregation and core switches alike.
void State::add_spread(const Place &place, double sign) {
    const double total = demand_.total_bps(), spread = static_cast<double>(fabric_.aggs);
    const size_t own_rack = place.index;
    const double cores = spread * static_cast<double>(fabric_.cores_per_agg);
    const auto both = [&](size_t number, double up_bps, double down_bps) {
        for (size_t a = 0; a < fabric_.aggs; a++) {
            raise(fabric_.up(number, a), sign * up_bps / spread / rack_bps_);
            raise(fabric_.down(number, a), sign * down_bps / spread / rack_bps_);
        }
    };
    for (const uint32_t source : demand_.sources)
        if (source != own_rack)
            both(source, demand_.source_bps[source], 0);
    for (const uint32_t destination : demand_.destinations)
        if (destination != own_rack)
            both(destination, 0, total * demand_.share[destination]);
    both(own_rack, total * (1 - demand_.share[own_rack]), total - demand_.source_bps[own_rack]);
    for (size_t c = 0; c < fabric_.containers; c++) {
        const double inside = demand_.container_bps[c], share = demand_.container_share[c];
        const bool is_own = c == place.container;
        const double up = is_own ? total * (1 - share) : inside;
        const double down = is_own ? total - inside : total * share;
        for (size_t a = 0; a < fabric_.aggs; a++)
            for (size_t x = 0; x < fabric_.cores_per_agg; x++) {
                raise(fabric_.core_up(c, a, x), sign * up / cores / core_bps_);
                raise(fabric_.core_down(c, a, x), sign * down / cores / core_bps_);
            }
    }
}

// On an aggregation or core switch: over aggregation switches of its index alone.
void State::add_single(const Place &place, double sign) {
    const double total = demand_.total_bps();
    const size_t a = place.index;
    for (const uint32_t source : demand_.sources)
        raise(fabric_.up(source, a), sign * demand_.source_bps[source] / rack_bps_);
    for (const uint32_t destination : demand_.destinations)
        raise(fabric_.down(destination, a), sign * total * demand_.share[destination] / rack_bps_);
    const bool is_core = place.tier == Tier::core;
    const size_t first = is_core ? place.core : 0;
    const size_t last = is_core ? place.core + 1 : fabric_.cores_per_agg;
    const auto cores = static_cast<double>(last - first);
    for (size_t c = 0; c < fabric_.containers; c++) {
        const double inside = demand_.container_bps[c], share = demand_.container_share[c];
        const bool is_own = !is_core && c == place.container;
        const double up = is_own ? total * (1 - share) : inside;
        const double down = is_own ? total - inside : total * share;
        for (size_t x = first; x < last; x++) {
            raise(fabric_.core_up(c, a, x), sign * up / cores / core_bps_);
            raise(fabric_.core_down(c, a, x), sign * down / cores / core_bps_);
        }
    }
}

void State::raise(size_t link, double by) {
    links_[link] += by;
    link_sum_ += by;
    link_max_ = std::max(link_max_, links_[link]);
}

void State::refresh(size_t own) {
    const auto rack = [&](size_t number) {
        up_[number] = highest(links_, fabric_.up(number, 0), fabric_.aggs);
        down_[number] = highest(links_, fabric_.down(number, 0), fabric_.aggs);
    };
    for (const uint32_t number : demand_.sources)
        rack(number);
    for (const uint32_t number : demand_.destinations)
        rack(number);
    if (own < fabric_.racks()) // it may neither send nor serve
        rack(own);
    for (size_t at = 0; at < agg_up_.size(); at++) {
        const size_t c = at / fabric_.aggs, a = at % fabric_.aggs;
        agg_up_[at] = highest(links_, fabric_.core_up(c, a, 0), fabric_.cores_per_agg);
        agg_down_[at] = highest(links_, fabric_.core_down(c, a, 0), fabric_.cores_per_agg);
    }
    for (size_t c = 0; c < fabric_.containers; c++) {
        container_up_[c] = highest(agg_up_, c * fabric_.aggs, fabric_.aggs);
        container_down_[c] = highest(agg_down_, c * fabric_.aggs, fabric_.aggs);
    }
}

} // namespace dcgym::placement
