// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <system_error>

#include "common/bpf_object.hpp"
#include "common/clock.hpp"

namespace dcgym {
namespace {

static_assert(sizeof(dcgym_group_table) == 12 + 12 * DCGYM_GROUP_MEMBERS);
static_assert(sizeof(dcgym_group) == 16 + 2 * sizeof(dcgym_group_table));
// The kernel lays the values of an array map out at multiples of 8 bytes.
static_assert(sizeof(dcgym_group) % 8 == 0);
static_assert(sizeof(dcgym_flow) == 24);

// A writer holds its word for well under a microsecond; beyond this it has died.
constexpr uint64_t writer_deadline_ns = 1'000'000'000;

void check_members(const std::vector<uint32_t> &ifindexes, const std::vector<double> &weights) {
    if (ifindexes.empty() || ifindexes.size() > DCGYM_GROUP_MEMBERS)
        throw_config_error("ifindexes", std::to_string(ifindexes.size()) + " members",
                           "1 to " + std::to_string(DCGYM_GROUP_MEMBERS) + " members");
    if (weights.size() != ifindexes.size())
        throw_config_error("weights", std::to_string(weights.size()) + " weights",
                           "one weight a member");
    for (const double weight : weights)
        if (!std::isfinite(weight) || weight < 0)
            throw_config_error("weights", std::to_string(weight), "finite, 0 or more");
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(total > 0) || !std::isfinite(total))
        throw_config_error("weights", std::to_string(total), "a positive finite sum");
}

uint32_t threshold(double probability) {
    return static_cast<uint32_t>(std::min(std::floor(probability * 0x1p32), 0xffffffffp0));
}

void split_by_mean(const std::vector<double> &scaled, std::vector<size_t> &below,
                   std::vector<size_t> &above) {
    for (size_t i = 0; i < scaled.size(); i++)
        (scaled[i] < 1.0 ? below : above).push_back(i);
}

void fill_slots(dcgym_group_table &table, const uint32_t *ifindexes, std::vector<double> scaled) {
    for (size_t i = 0; i < scaled.size(); i++)
        table.slots[i] = {ifindexes[i], ifindexes[i], UINT32_MAX};
    std::vector<size_t> below, above;
    split_by_mean(scaled, below, above);
    while (!below.empty() && !above.empty()) {
        const size_t small = below.back(), large = above.back();
        below.pop_back();
        table.slots[small].threshold = threshold(scaled[small]);
        table.slots[small].alias = ifindexes[large];
        scaled[large] -= 1.0 - scaled[small];
        if (scaled[large] < 1.0) {
            above.pop_back();
            below.push_back(large);
        }
    }
}

std::vector<double> scale_to_mean(const std::vector<double> &weights) {
    const double mean =
        std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
    std::vector<double> scaled;
    for (const double weight : weights)
        scaled.push_back(weight / mean);
    return scaled;
}

// Excludes other writers, in this process and in others, for its lifetime.
class Writing {
  public:
    explicit Writing(dcgym_group &group) : word_(group.writer) {
        const uint64_t deadline_ns = monotonic_ns() + writer_deadline_ns;
        uint32_t free = 0;
        while (!word_.compare_exchange_weak(free, 1)) {
            free = 0;
            if (monotonic_ns() > deadline_ns)
                throw std::system_error(ETIMEDOUT, std::generic_category(),
                                        "a writer of a next-hop group does not end");
        }
    }
    ~Writing() { word_.store(0); }
    Writing(const Writing &) = delete;
    Writing &operator=(const Writing &) = delete;

  private:
    std::atomic_ref<__u32> word_;
};

const dcgym_group_table &in_force(const dcgym_group &group) {
    return group.tables[group.version & 1];
}

// For the holder of `Writing` only.
void publish(dcgym_group &group, const dcgym_group_table &table) {
    const uint64_t next = group.version + 1;
    // Readers of the table before this one must see its version gone before its words change.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    group.tables[next & 1] = table;
    std::atomic_ref<__u64>(group.version).store(next, std::memory_order_release);
}

bool same_members(const dcgym_group_table &one, const dcgym_group_table &other) {
    return one.size == other.size &&
           std::equal(one.slots, one.slots + one.size, other.slots,
                      [](const auto &a, const auto &b) { return a.ifindex == b.ifindex; });
}

} // namespace

dcgym_group_table make_table(uint32_t salt, const std::vector<uint32_t> &ifindexes,
                             const std::vector<double> &weights) {
    check_members(ifindexes, weights);
    dcgym_group_table table{};
    table.salt = salt;
    table.size = static_cast<uint32_t>(ifindexes.size());
    fill_slots(table, ifindexes.data(), scale_to_mean(weights));
    return table;
}

GroupTable::GroupTable(int groups_fd, int control_fd, uint32_t n_groups)
    : n_groups_(n_groups),
      groups_(std::make_unique<Mapping>(groups_fd, n_groups * sizeof(dcgym_group), true)),
      control_(std::make_unique<Mapping>(control_fd, sizeof(dcgym_fabric_control), true)) {}

dcgym_group &GroupTable::group(uint32_t group_id) const {
    if (group_id >= n_groups_)
        throw_config_error("group_id", std::to_string(group_id),
                           "0 to " + std::to_string(n_groups_ - 1));
    return reinterpret_cast<dcgym_group *>(groups_->data())[group_id];
}

dcgym_fabric_control &GroupTable::control() const {
    return *reinterpret_cast<dcgym_fabric_control *>(control_->data());
}

void GroupTable::replace(uint32_t group_id, uint32_t salt, const std::vector<uint32_t> &ifindexes,
                         const std::vector<double> &weights, std::optional<uint32_t> follows) {
    dcgym_group &target = group(group_id);
    if (follows)
        group(*follows);
    dcgym_group_table table = make_table(salt, ifindexes, weights);
    const Writing writing(target);
    const uint32_t leader = follows ? *follows + 1 : 0;
    const bool has_new_leader = std::atomic_ref<__u32>(target.follows).exchange(leader) != leader;
    table.generation = in_force(target).generation;
    if (table.generation == 0 || has_new_leader || !same_members(table, in_force(target)))
        table.generation = 1 + std::atomic_ref<__u32>(control().last_generation).fetch_add(1);
    publish(target, table);
}

void GroupTable::set_weights(uint32_t group_id, const uint32_t *ifindexes, const double *weights,
                             size_t n_weights) {
    dcgym_group &target = group(group_id);
    const Writing writing(target);
    dcgym_group_table table = in_force(target);
    std::vector<uint32_t> members;
    std::vector<double> own;
    for (size_t slot = 0; slot < table.size; slot++) {
        const uint32_t *end = ifindexes + n_weights;
        const uint32_t *found = std::find(ifindexes, end, table.slots[slot].ifindex);
        members.push_back(table.slots[slot].ifindex);
        own.push_back(found == end ? 0.0 : weights[found - ifindexes]);
    }
    if (members.empty())
        return;
    if (std::accumulate(own.begin(), own.end(), 0.0) <= 0)
        std::fill(own.begin(), own.end(), 1.0);
    fill_slots(table, members.data(), scale_to_mean(own));
    publish(target, table);
}

dcgym_group_table GroupTable::read(uint32_t group_id) const {
    dcgym_group &source = group(group_id);
    const Writing no_other(source);
    return in_force(source);
}

std::vector<std::pair<uint32_t, uint32_t>> GroupTable::followers() const {
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t id = 0; id < n_groups_; id++)
        if (const uint32_t leader = std::atomic_ref<__u32>(group(id).follows).load())
            found.emplace_back(id, leader - 1);
    return found;
}

uint32_t GroupTable::last_generation() const {
    return std::atomic_ref<__u32>(control().last_generation).load();
}

void GroupTable::set_flowlet_gap(uint64_t gap_ns) {
    std::atomic_ref<__u64>(control().flowlet_gap_ns).store(gap_ns);
}

void GroupTable::forget_flows() {
    std::atomic_ref<__u32>(control().epoch).fetch_add(1);
}

PathWeights::PathWeights(std::shared_ptr<GroupTable> table, std::vector<uint32_t> group_ids,
                         std::vector<std::vector<uint32_t>> ifindexes)
    : table_(std::move(table)), group_ids_(std::move(group_ids)), ifindexes_(std::move(ifindexes)) {
    if (group_ids_.size() != ifindexes_.size())
        throw_config_error("ifindexes", std::to_string(ifindexes_.size()) + " lists",
                           "one list of interfaces a group");
    for (const auto &members : ifindexes_) {
        first_weights_.push_back(n_weights_);
        n_weights_ += members.size();
    }
    for (const uint32_t group_id : group_ids_)
        table_->read(group_id);
}

void PathWeights::find_followers() {
    followers_.clear();
    for (const auto &[follower, leader] : table_->followers()) {
        const auto found = std::find(group_ids_.begin(), group_ids_.end(), leader);
        if (found != group_ids_.end())
            followers_.emplace_back(follower, found - group_ids_.begin());
    }
}

uint64_t PathWeights::apply(const double *weights) {
    const auto set = [&](uint32_t group_id, size_t leader) {
        const auto &members = ifindexes_[leader];
        table_->set_weights(group_id, members.data(), weights + first_weights_[leader],
                            members.size());
    };
    for (size_t i = 0; i < group_ids_.size(); i++)
        set(group_ids_[i], i);
    // Taken before the search: what changes during it is found the next time.
    if (const uint32_t generation = table_->last_generation(); generation != seen_generation_) {
        find_followers();
        seen_generation_ = generation;
    }
    for (const auto &[follower, leader] : followers_)
        set(follower, leader);
    return monotonic_ns();
}

} // namespace dcgym
