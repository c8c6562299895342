// SPDX-License-Identifier: Apache-2.0
// Next-hop groups in mapped memory: replaced whole, in any process that holds the maps.
#pragma once

#include <cstdint>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/mapping.hpp"
#include "fabric.h"

namespace dcgym {

// Vose's alias table: a hash picks a member with a probability proportional to its weight.
dcgym_group_table make_table(uint32_t salt, const std::vector<uint32_t> &ifindexes,
                             const std::vector<double> &weights);

// Writers of one group exclude each other through a word in the map; readers never wait.
class GroupTable {
  public:
    GroupTable(int groups_fd, int control_fd, uint32_t n_groups);

    // Replaces members and weights. A flow pinned to a port that is no member any more moves.
    // With `follows` the weights that agents set in that group from now on hold here too.
    void replace(uint32_t group_id, uint32_t salt, const std::vector<uint32_t> &ifindexes,
                 const std::vector<double> &weights, std::optional<uint32_t> follows = {});

    // Replaces the weights of the members that are listed; members do not change. Those not
    // listed get none, and where no member is left with a weight all get the same.
    void set_weights(uint32_t group_id, const uint32_t *ifindexes, const double *weights,
                     size_t n_weights);

    dcgym_group_table read(uint32_t group_id) const;

    // Numbers of the groups that follow another one, and of that.
    std::vector<std::pair<uint32_t, uint32_t>> followers() const;
    // Changes whenever the members of any group do, or whom it follows.
    uint32_t last_generation() const;

    // Lets a flow move after it was idle for that long; 0 keeps every flow where it began.
    void set_flowlet_gap(uint64_t gap_ns);
    void forget_flows();

  private:
    dcgym_group &group(uint32_t group_id) const;
    dcgym_fabric_control &control() const;

    uint32_t n_groups_;
    std::unique_ptr<Mapping> groups_, control_;
};

// The weights that an agent sets: a fixed list of groups, written in one pass.
class PathWeights {
  public:
    PathWeights(std::shared_ptr<GroupTable> table, std::vector<uint32_t> group_ids,
                std::vector<std::vector<uint32_t>> ifindexes);

    // One weight a member, group by group; returns CLOCK_MONOTONIC once all are in force.
    uint64_t apply(const double *weights);
    size_t size() const { return n_weights_; }

  private:
    void find_followers();

    std::shared_ptr<GroupTable> table_;
    std::vector<uint32_t> group_ids_;
    std::vector<std::vector<uint32_t>> ifindexes_;
    std::vector<size_t> first_weights_;
    // Number of a group, and position in `group_ids_` of the one whose weights it takes.
    std::vector<std::pair<uint32_t, size_t>> followers_;
    uint32_t seen_generation_ = 0;
    size_t n_weights_ = 0;
};

} // namespace dcgym
