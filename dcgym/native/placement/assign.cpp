// SPDX-License-Identifier: Apache-2.0
#include "assign.hpp"

#include <algorithm>
#include <numeric>

#include "splitmix.h"

namespace dcgym::placement {

namespace {

constexpr uint64_t ties = 1, scans = 2; // two orders of a seed

bool fits(const State &state, const Offer &offer) {
    return state.is_feasible(offer);
}

// The switch of least MRU; equals in a random order (Duet, section 4.1).
int64_t least_mru(const State &state, size_t vip, const std::vector<Offer> &offers, uint64_t seed) {
    int64_t best = -1;
    double least = 0;
    uint64_t least_tie = 0;
    for (size_t number = 0; number < offers.size(); number++) {
        if (!fits(state, offers[number]))
            continue;
        const double value = state.mru(offers[number]);
        if (best >= 0 && value > least)
            continue;
        const uint64_t tie = draw(seed ^ ties, vip, number);
        if (best < 0 || value < least || tie < least_tie) {
            best = static_cast<int64_t>(number);
            least = value;
            least_tie = tie;
        }
    }
    return best;
}

int64_t first_feasible(const State &state, size_t vip, const std::vector<Offer> &offers,
                       uint64_t seed) {
    int64_t best = -1;
    uint64_t least = 0;
    for (size_t number = 0; number < offers.size(); number++) {
        if (!fits(state, offers[number]))
            continue;
        const uint64_t at = draw(seed ^ scans, vip, number);
        if (best < 0 || at < least) {
            best = static_cast<int64_t>(number);
            least = at;
        }
    }
    return best;
}

} // namespace

uint64_t draw(uint64_t seed, uint64_t vip, uint64_t number) {
    return dcgym_mix(dcgym_mix(dcgym_mix(seed + 0x9e3779b97f4a7c15U) + vip) + number);
}

void assign(State &state, const std::vector<uint32_t> &order, const std::vector<int32_t> &before,
            const Rule &rule, Interrupt &call) {
    std::vector<Offer> offers;
    for (const uint32_t vip : order) {
        call.look();
        const int64_t own = before.empty() ? on_muxes : before[vip];
        if (rule.choice == Choice::none && own < 0)
            continue;
        if (state.n_placed() >= state.limits().host_entries)
            break;
        state.price(vip, offers);
        const bool can_stay = own >= 0 && fits(state, offers[static_cast<size_t>(own)]);
        int64_t best = -1;
        if (rule.choice == Choice::none)
            best = can_stay ? own : -1;
        else if (rule.choice == Choice::first_feasible)
            best = can_stay ? own : first_feasible(state, vip, offers, rule.seed);
        else
            best = least_mru(state, vip, offers, rule.seed);
        if (best >= 0 && can_stay && rule.choice == Choice::least_mru) {
            const double gain = state.mru(offers[static_cast<size_t>(own)]) -
                                state.mru(offers[static_cast<size_t>(best)]);
            if (gain <= rule.margin)
                best = own;
        }
        if (best >= 0)
            state.place(vip, static_cast<size_t>(best));
        // One that no empty switch could hold says nothing of those after it.
        else if (rule.stops && state.demand().dips <= state.limits().switch_entries)
            break;
    }
}

void choose(const State &state, size_t vip, const std::vector<Offer> &offers, size_t most,
            uint64_t seed, Candidates &out) {
    const size_t n = offers.size();
    out.numbers.resize(n);
    std::iota(out.numbers.begin(), out.numbers.end(), 0U);
    if (most > 0 && most < n) {
        std::vector<double> keys(n);
        const auto take = [&](size_t from, size_t count, const auto &key) {
            const size_t end = std::min(from + count, most);
            for (size_t i = from; i < n; i++)
                keys[out.numbers[i]] = key(out.numbers[i]);
            const auto begin = out.numbers.begin();
            std::partial_sort(begin + static_cast<std::ptrdiff_t>(from),
                              begin + static_cast<std::ptrdiff_t>(end), out.numbers.end(),
                              [&](uint32_t a, uint32_t b) {
                                  return keys[a] != keys[b] ? keys[a] < keys[b]
                                         : draw(seed ^ ties, vip, a) != draw(seed ^ ties, vip, b)
                                             ? draw(seed ^ ties, vip, a) < draw(seed ^ ties, vip, b)
                                             : a < b;
                              });
        };
        constexpr double last = 1e18; // infeasible ones only where nothing else is left
        const auto among = [&](uint32_t i, double key) {
            return fits(state, offers[i]) ? key : last + key;
        };
        const size_t by_mru = (most + 1) / 2, by_hops = (most + 2) / 4;
        take(0, by_mru, [&](uint32_t i) { return among(i, state.mru(offers[i])); });
        take(by_mru, by_hops, [&](uint32_t i) { return among(i, offers[i].hops); });
        take(by_mru + by_hops, most, [&](uint32_t i) {
            return among(i, static_cast<double>(draw(seed ^ scans, vip, i) >> 11));
        });
        out.numbers.resize(most);
    }
    out.feasible.resize(out.numbers.size());
    out.scan.resize(out.numbers.size());
    for (size_t i = 0; i < out.numbers.size(); i++) {
        const uint32_t number = out.numbers[i];
        out.feasible[i] = fits(state, offers[number]);
        out.scan[i] = static_cast<double>(draw(seed ^ scans, vip, number) >> 11) * 0x1p-53;
    }
}

} // namespace dcgym::placement
