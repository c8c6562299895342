// SPDX-License-Identifier: Apache-2.0
// Python face of the flow-level model. It checks sizes and nothing else: dcgym.backends made them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "assign.hpp"
#include "evaluation.hpp"
#include "python_signals.hpp"
#include "state.hpp"

namespace py = pybind11;
using namespace py::literals;
using namespace dcgym::placement;
using dcgym::ask_python;
using dcgym::Interrupt;

namespace {

template <typename Value> using In = py::array_t<Value, py::array::c_style | py::array::forcecast>;

void check(bool is_right, const char *what) {
    if (!is_right)
        throw std::invalid_argument(what);
}

template <typename Value> std::vector<Value> copied(const In<Value> &given) {
    return {given.data(), given.data() + given.size()};
}

template <typename Value> py::array_t<Value> shown(const std::vector<Value> &values) {
    return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

void check_table(const std::vector<uint64_t> &start, size_t rows, size_t vips) {
    check(start.size() == vips + 1 && start.front() == 0 && start.back() == rows &&
              std::is_sorted(start.begin(), start.end()),
          "rows of each VIP");
}

std::shared_ptr<Vips> make_vips(const In<uint64_t> &source_start, const In<uint32_t> &source_rack,
                                const In<double> &source_bps, const In<double> &internet_bps,
                                const In<uint64_t> &dip_start, const In<uint32_t> &dip_rack,
                                const In<uint32_t> &dip_count) {
    auto made = std::make_shared<Vips>(
        Vips{copied(source_start), copied(source_rack), copied(source_bps), copied(internet_bps),
             copied(dip_start), copied(dip_rack), copied(dip_count)});
    check(made->source_rack.size() == made->source_bps.size(), "a rate of each source");
    check(made->dip_rack.size() == made->dip_count.size(), "a count of each rack with DIPs");
    check_table(made->source_start, made->source_rack.size(), made->size());
    check_table(made->dip_start, made->dip_rack.size(), made->size());
    return made;
}

void check_racks(const Vips &vips, const Fabric &fabric) {
    for (const auto *racks : {&vips.source_rack, &vips.dip_rack})
        check(std::all_of(racks->begin(), racks->end(),
                          [&](uint32_t rack) { return rack < fabric.racks(); }),
              "racks of the data centre");
}

void check_where(const std::vector<int32_t> &where, const Vips &vips, const Fabric &fabric) {
    check(where.size() == vips.size(), "a place of each VIP");
    check(std::all_of(where.begin(), where.end(),
                      [&](int32_t one) { return one < static_cast<int32_t>(fabric.switches()); }),
          "switches of the data centre");
}

// What is said of each candidate, in this order.
constexpr const char *columns[] = {"link",        "memory",   "hops",           "mru",
                                   "own_sources", "own_dips", "nearby_sources", "nearby_dips",
                                   "tier",        "scan"};

// A state, with room for what it says of one VIP.
class Board {
  public:
    Board(const Fabric &fabric, const std::shared_ptr<Vips> &vips, Limits limits,
          const std::vector<uint32_t> &used)
        : state_(fabric, vips, limits, used) {
        check_racks(*vips, fabric);
        for (size_t number = 0; number < fabric.switches(); number++)
            places_.push_back(place_of(fabric, number));
    }

    State &state() { return state_; }

    // Link, memory and hops of every switch.
    py::array_t<double> price(size_t vip) {
        check_vip(vip);
        state_.price(vip, offers_);
        py::array_t<double> made({size_t{3}, offers_.size()});
        auto view = made.mutable_unchecked<2>();
        for (size_t i = 0; i < offers_.size(); i++) {
            const auto at = static_cast<py::ssize_t>(i);
            view(0, at) = offers_[i].link;
            view(1, at) = offers_[i].memory;
            view(2, at) = offers_[i].hops;
        }
        return made;
    }

    // Numbers of the candidates, whether each is feasible, and a row of `columns` for each.
    py::tuple candidates(size_t vip, size_t most, uint64_t seed) {
        check_vip(vip);
        state_.price(vip, offers_);
        choose(state_, vip, offers_, most, seed, chosen_);
        const size_t n = chosen_.numbers.size();
        py::array_t<int32_t> numbers(static_cast<py::ssize_t>(n));
        py::array_t<bool> feasible(static_cast<py::ssize_t>(n));
        py::array_t<double> rows({n, std::size(columns)});
        double *row = rows.mutable_data();
        for (size_t i = 0; i < n; i++, row += std::size(columns)) {
            numbers.mutable_data()[i] = static_cast<int32_t>(chosen_.numbers[i]);
            feasible.mutable_data()[i] = chosen_.feasible[i] != 0;
            describe(chosen_.numbers[i], chosen_.scan[i], row);
        }
        return py::make_tuple(numbers, feasible, rows);
    }

    bool fits(size_t vip, size_t number) {
        check_vip(vip);
        check(number < places_.size(), "a switch");
        state_.price(vip, offers_);
        return state_.is_feasible(offers_[number]);
    }

    void place(size_t vip, size_t number) {
        check_vip(vip);
        check(number < places_.size(), "a switch");
        state_.place(vip, number);
    }

    void remove(size_t vip) {
        check_vip(vip);
        state_.remove(vip);
    }

    void assign_all(const std::vector<uint32_t> &order, const std::vector<int32_t> &before,
                    const std::string &choice, bool stops, double margin, uint64_t seed) {
        for (const uint32_t vip : order)
            check_vip(vip);
        if (!before.empty())
            check_where(before, state_.vips(), state_.fabric());
        const Choice chosen = choice == "least-mru"        ? Choice::least_mru
                              : choice == "first-feasible" ? Choice::first_feasible
                                                           : Choice::none;
        const py::gil_scoped_release released;
        Interrupt call(ask_python);
        assign(state_, order, before, {chosen, stops, margin, seed}, call);
    }

  private:
    void check_vip(size_t vip) const { check(vip < state_.vips().size(), "a VIP"); }

    void describe(uint32_t number, double scan, double *row) const {
        const Offer &offer = offers_[number];
        const Demand &demand = state_.demand();
        const Place &place = places_[number];
        const bool is_rack = place.tier == Tier::rack, is_core = place.tier == Tier::core;
        const double total = std::max(demand.total_bps(), 1.0);
        *row++ = offer.link;
        *row++ = offer.memory;
        *row++ = offer.hops;
        *row++ = state_.mru(offer);
        *row++ = is_rack ? demand.source_bps[number] / total : 0;
        *row++ = is_rack ? demand.share[number] : 0;
        *row++ = is_core ? 0 : demand.container_bps[place.container] / total;
        *row++ = is_core ? 0 : demand.container_share[place.container];
        *row++ = static_cast<double>(place.tier);
        *row = scan;
    }

    State state_;
    std::vector<Place> places_;
    std::vector<Offer> offers_;
    Candidates chosen_;
};

Health health_of(const Fabric &fabric, const In<bool> &switches, const In<bool> &links) {
    check(static_cast<size_t>(switches.size()) == fabric.switches(), "health of each switch");
    check(static_cast<size_t>(links.size()) == fabric.links(), "health of each link");
    return {{switches.data(), switches.data() + switches.size()},
            {links.data(), links.data() + links.size()}};
}

py::dict evaluated(const Fabric &fabric, const std::shared_ptr<Vips> &vips,
                   const In<int32_t> &where, const In<double> &mux_share,
                   const In<bool> &switch_is_up, const In<bool> &link_is_up, bool is_routed) {
    const std::vector<int32_t> places = copied(where);
    check_racks(*vips, fabric);
    check_where(places, *vips, fabric);
    const std::vector<double> shares = copied(mux_share);
    check(shares.size() == fabric.racks(), "muxes of each rack");
    const Health health = health_of(fabric, switch_is_up, link_is_up);
    Outcome found;
    {
        const py::gil_scoped_release released;
        Interrupt call(ask_python);
        found = evaluate(fabric, *vips, places, shares, health, is_routed, call);
    }
    return py::dict(
        "link_bps"_a = shown(found.loads.link_bps), "by_switch_bps"_a = shown(found.by_switch_bps),
        "hop_bps"_a = found.loads.hop_bps, "unreachable_bps"_a = found.loads.unreachable_bps,
        "total_bps"_a = found.total_bps, "switch_bps"_a = found.switch_bps,
        "mux_bps"_a = found.mux_bps, "lost_bps"_a = found.lost_bps, "dark_bps"_a = found.dark_bps,
        "direct_hop_bps"_a = found.direct_hop_bps, "direct_core_bps"_a = found.direct_core_bps);
}

py::array_t<double> ideal_loads(const Fabric &fabric, const std::shared_ptr<Vips> &vips,
                                bool is_closest) {
    check_racks(*vips, fabric);
    Loads found;
    {
        const py::gil_scoped_release released;
        Interrupt call(ask_python);
        found = ideal(fabric, *vips, is_closest, call);
    }
    return shown(found.link_bps);
}

} // namespace

PYBIND11_MODULE(_placement, module) {
    module.doc() = "Flow-level model of VIPs on switches and software muxes.";
    dcgym::translate_ends();
    py::tuple names(std::size(columns));
    for (size_t i = 0; i < std::size(columns); i++)
        names[i] = py::str(columns[i]);
    module.attr("COLUMNS") = names;
    py::class_<Fabric>(module, "Fabric")
        .def(py::init([](size_t containers, size_t racks, size_t aggs, size_t cores,
                         double rack_bps, double core_bps) {
                 return Fabric{containers, racks, aggs, cores, rack_bps, core_bps};
             }),
             "containers"_a, "racks_per_container"_a, "aggs"_a, "cores_per_agg"_a, "rack_bps"_a,
             "core_bps"_a);
    // Nothing in it changes.
    py::class_<Vips, std::shared_ptr<Vips>>(module, "Vips")
        .def(py::init(&make_vips), "source_start"_a, "source_rack"_a, "source_bps"_a,
             "internet_bps"_a, "dip_start"_a, "dip_rack"_a, "dip_count"_a)
        .def("__deepcopy__", [](const py::object &self, const py::dict &) { return self; });
    py::class_<Board>(module, "Board")
        .def(py::init([](const Fabric &fabric, const std::shared_ptr<Vips> &vips,
                         uint32_t switch_entries, uint32_t host_entries, double reserve,
                         const std::vector<uint32_t> &used) {
                 check(used.empty() || used.size() == fabric.switches(), "entries of each switch");
                 return Board(fabric, vips, {switch_entries, host_entries, reserve}, used);
             }),
             "fabric"_a, "vips"_a, "switch_entries"_a, "host_entries"_a, "reserve"_a, "used"_a)
        .def("__deepcopy__", [](const Board &self, const py::dict &) { return Board(self); })
        .def("price", &Board::price, "vip"_a)
        .def("candidates", &Board::candidates, "vip"_a, "most"_a, "seed"_a)
        .def("fits", &Board::fits, "vip"_a, "number"_a)
        .def("place", &Board::place, "vip"_a, "number"_a)
        .def("remove", &Board::remove, "vip"_a)
        .def("assign", &Board::assign_all, "order"_a, "before"_a, "choice"_a, "stops"_a, "margin"_a,
             "seed"_a)
        .def_property_readonly("where", [](Board &self) { return shown(self.state().where()); })
        .def_property_readonly("links", [](Board &self) { return shown(self.state().links()); })
        .def_property_readonly("memory", [](Board &self) { return shown(self.state().memory()); })
        .def("usage", [](Board &self) {
            const State &state = self.state();
            return py::make_tuple(state.link_max(), state.link_mean(), state.memory_max(),
                                  state.n_placed(), state.placed_bps());
        });
    module.def("evaluate", &evaluated, "fabric"_a, "vips"_a, "where"_a, "mux_share"_a,
               "switch_is_up"_a, "link_is_up"_a, "is_routed"_a);
    module.def("ideal", &ideal_loads, "fabric"_a, "vips"_a, "is_closest"_a);
}
