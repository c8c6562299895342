// SPDX-License-Identifier: Apache-2.0
// The rules, the alias table and the reservoir by themselves, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "alias.h"
#include "fixed_weights.h"
#include "delay_tree.hpp"
#include "rules.h"

namespace py = pybind11;
using namespace dcgym::twin::balancing;

namespace {

using Scores = std::vector<std::array<uint64_t, 3>>;     // value, speed, time_ns
using Turns = std::vector<std::pair<int64_t, uint64_t>>; // credit, deadline

std::vector<dcgym_alias> alias_table(const std::vector<uint32_t> &weights) {
    if (weights.empty() || weights.size() > DCGYM_RULE_SERVERS)
        throw py::value_error("weights: 1 to " + std::to_string(DCGYM_RULE_SERVERS) + " expected");
    std::vector<dcgym_alias> table(weights.size());
    dcgym_alias_build(weights.data(), static_cast<uint32_t>(weights.size()), table.data());
    return table;
}

py::list alias_columns(const std::vector<uint32_t> &weights) {
    py::list columns;
    for (const dcgym_alias &column : alias_table(weights))
        columns.append(py::make_tuple(column.threshold, column.other));
    return columns;
}

// The pool's columns, readable as far as the rules may look.
struct Columns {
    Columns(std::vector<uint16_t> servers, std::vector<uint32_t> weights)
        : n(static_cast<uint32_t>(servers.size())),
          alias(servers.empty() ? std::vector<dcgym_alias>() : alias_table(weights)),
          server(std::move(servers)), weight(std::move(weights)) {
        server.resize(n + DCGYM_RULE_STRIDE);
        weight.resize(n + DCGYM_RULE_STRIDE);
    }
    dcgym_pool_view view() const { return {n, server.data(), weight.data(), alias.data()}; }

    uint32_t n;
    std::vector<dcgym_alias> alias;
    std::vector<uint16_t> server;
    std::vector<uint32_t> weight;
};

std::vector<uint32_t> fixed_weights(const std::vector<double> &weights) {
    if (weights.size() > DCGYM_RULE_SERVERS)
        throw py::value_error("weights: at most " + std::to_string(DCGYM_RULE_SERVERS));
    std::vector<uint32_t> fixed(weights.size());
    dcgym_fixed_weights(weights.data(), static_cast<uint32_t>(weights.size()), fixed.data());
    return fixed;
}

// One choice per hash; the state carries over from one to the next.
py::dict choose(uint32_t rule, std::vector<uint16_t> servers, std::vector<uint32_t> weights,
                const std::vector<uint32_t> &ongoing, const Scores &scores, uint64_t random,
                uint32_t turn, const std::vector<uint64_t> &hashes, uint64_t now_ns,
                const Turns &turns, uint64_t clock) {
    for (const uint16_t server : servers)
        if (server >= ongoing.size() || server >= scores.size())
            throw py::value_error("servers: each needs a queue and a score");
    const Columns columns(std::move(servers), std::move(weights));
    std::vector<dcgym_score> score;
    for (const auto &[value, speed, time_ns] : scores)
        score.push_back({value, speed, time_ns});
    std::vector<dcgym_turn> turn_by_server(ongoing.size());
    for (size_t i = 0; i < std::min(turns.size(), ongoing.size()); i++)
        turn_by_server[i] = {turns[i].first, turns[i].second};
    const dcgym_pool_view pool = columns.view();
    __u64 generator = random, deadline = clock;
    dcgym_state_view state{&generator, &turn,  ongoing.data(), score.data(), turn_by_server.data(),
                           &deadline,  nullptr};
    std::vector<uint32_t> choices;
    for (const uint64_t hash : hashes)
        choices.push_back(dcgym_choose(rule, &pool, &state, hash, now_ns));
    py::list after;
    for (const dcgym_score &s : score)
        after.append(py::make_tuple(s.value, s.speed, s.time_ns));
    py::list turns_after;
    for (const dcgym_turn &t : turn_by_server)
        turns_after.append(py::make_tuple(t.credit, t.deadline));
    using namespace py::literals;
    return py::dict("choices"_a = choices, "scores"_a = after, "random"_a = uint64_t{generator},
                    "turn"_a = turn, "turns"_a = turns_after, "clock"_a = uint64_t{deadline});
}

// One choice after each change, (position, queue), of queues that were empty.
std::pair<std::vector<uint32_t>, uint64_t>
tree_choices(const std::vector<uint32_t> &weights, uint32_t shift, uint64_t random,
             const std::vector<std::pair<uint32_t, uint32_t>> &changes) {
    std::vector<uint16_t> servers(weights.size());
    std::iota(servers.begin(), servers.end(), uint16_t{0});
    DelayTree tree;
    tree.build(servers, weights.data(), std::vector<uint32_t>(weights.size()), shift);
    __u64 generator = random;
    std::vector<uint32_t> choices;
    for (const auto &[position, queue] : changes) {
        tree.update(position, queue);
        choices.push_back(tree.choose(&generator));
    }
    return {choices, generator};
}

std::vector<uint32_t> fallback(uint32_t rule, std::vector<uint16_t> servers,
                               std::vector<uint32_t> weights, const std::vector<uint64_t> &hashes) {
    const Columns columns(std::move(servers), std::move(weights));
    const dcgym_pool_view pool = columns.view();
    std::vector<uint32_t> found;
    for (const uint64_t hash : hashes)
        found.push_back(dcgym_fallback(rule, &pool, hash));
    return found;
}

} // namespace

void bind_rules(py::module_ &module) {
    using namespace py::literals;
    module.attr("SCORE_ONE") = DCGYM_SCORE_ONE;
    module.attr("TICK_NS") = 1 << DCGYM_TICK_SHIFT;
    module.attr("NO_SERVER") = DCGYM_NO_SERVER;
    module.def("alias_table", &alias_columns, "weights"_a, "Columns (threshold, other).");
    module.def("fixed_weights", &fixed_weights, "weights"_a, "Weights in whole numbers.");
    module.def("choose", &choose, "rule"_a, "servers"_a, "weights"_a, "ongoing"_a, "scores"_a,
               "random"_a, "turn"_a, "hashes"_a, "now_ns"_a, "turns"_a = Turns(), "clock"_a = 0,
               "Let a rule choose once per hash.");
    module.def("tree_choices", &tree_choices, "weights"_a, "shift"_a, "random"_a, "changes"_a,
               "Choices of the tree that stands for the loop, and its chance's state after them.");
    module.def("fallback", &fallback, "rule"_a, "servers"_a, "weights"_a, "hashes"_a,
               "Where flows go that nothing remembers.");
}
