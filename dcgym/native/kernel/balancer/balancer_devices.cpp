// SPDX-License-Identifier: Apache-2.0
#include "balancer_devices.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "balancer_fields.hpp"
#include "common/bpf_object.hpp"
#include "common/clock.hpp"
#include "device_ring.h"

namespace dcgym {
namespace {

// The kernel lays the values of an array map out at multiples of 8 bytes.
static_assert(sizeof(dcgym_lb_devices) % 8 == 0);

using Slots = std::array<uint32_t, DCGYM_DEVICES>;

// The processors of every server, and nothing else.
DevicePolicy first_policy() {
    DevicePolicy policy;
    policy.present.fill(1);
    for (auto &weight : policy.weight)
        weight = {1};
    return policy;
}

uint8_t bits_of(const std::vector<uint32_t> &devices) {
    uint32_t bits = 0;
    if (devices.empty())
        throw_config_error("members", "no device", "at least one device a server");
    for (const uint32_t device : devices) {
        check_range("members", device, 0, DCGYM_DEVICES - 1);
        bits |= 1U << device;
    }
    return static_cast<uint8_t>(bits);
}

void fill_members(DevicePolicy &policy, const Members &members) {
    policy.present.fill(1);
    for (const auto &[server, devices] : members) {
        check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
        policy.present[server] = bits_of(devices);
    }
}

void fill_weights(DevicePolicy &policy, const DeviceWeights &weights) {
    check_range("servers of weights", weights.n_servers, 1, DCGYM_LB_SERVERS);
    check_range("devices of weights", weights.n_devices, 1, DCGYM_DEVICES);
    for (size_t i = 0; i < weights.n_servers * weights.n_devices; i++)
        if (!std::isfinite(weights.values[i]) || weights.values[i] < 0)
            throw_config_error("weights", std::to_string(weights.values[i]),
                               "finite and 0 or more");
    policy.weight = {};
    for (size_t server = 0; server < weights.n_servers; server++)
        std::copy_n(weights.values + server * weights.n_devices, weights.n_devices,
                    policy.weight[server].begin());
}

uint32_t slots_of(const DevicePolicy &policy, uint32_t server, Slots &slots) {
    std::array<double, DCGYM_DEVICES> weight{};
    for (uint32_t d = 0; d < DCGYM_DEVICES; d++)
        if (policy.present[server] >> d & 1)
            weight[d] = policy.weight[server][d];
    return dcgym_ring_slots(weight.data(), policy.ring_slots, slots.data());
}

} // namespace

BalancerDevices::BalancerDevices(int device_map_fd, uint32_t n_vips)
    : n_vips_(n_vips),
      mapping_(std::make_unique<Mapping>(device_map_fd, n_vips * sizeof(dcgym_lb_devices), true)) {
    for (uint32_t vip = 0; vip < n_vips; vip++) {
        policies_.push_back(in_force(vip));
        publish(vip);
    }
}

// What the writer before left; nobody else writes now, so the newest policy stands still.
DevicePolicy BalancerDevices::in_force(uint32_t vip) const {
    const dcgym_lb_device_policy *newest = devices(vip).policies;
    for (const dcgym_lb_device_policy &policy : devices(vip).policies)
        if (policy.sequence > newest->sequence)
            newest = &policy;
    DevicePolicy found = first_policy();
    if (newest->sequence == 0)
        return found;
    found.rule = newest->rule;
    found.threshold = newest->threshold;
    found.max_age_ns = newest->max_age_ns;
    std::copy_n(newest->present, found.present.size(), found.present.begin());
    for (size_t server = 0; server < found.weight.size(); server++)
        std::copy_n(newest->weight[server], DCGYM_DEVICES, found.weight[server].begin());
    return found;
}

dcgym_lb_devices &BalancerDevices::devices(uint32_t vip) const {
    check_range("vip", vip, 0, n_vips_ - 1);
    return reinterpret_cast<dcgym_lb_devices *>(mapping_->data())[vip];
}

void BalancerDevices::set_policy(uint32_t vip, const DeviceChange &change) {
    devices(vip);
    DevicePolicy policy = policies_[vip];
    policy.rule = change.rule.value_or(policy.rule);
    policy.threshold = change.threshold.value_or(policy.threshold);
    policy.max_age_ns = change.max_age_ns.value_or(policy.max_age_ns);
    policy.ring_slots = change.ring_slots.value_or(policy.ring_slots);
    check_range("rule", policy.rule, 0, DCGYM_N_DEVICE_RULES - 1);
    check_range("threshold", policy.threshold, 1, DCGYM_FULL_LOAD);
    check_range("ring_slots", policy.ring_slots, DCGYM_DEVICES, DCGYM_RING_SLOTS);
    if (change.weights)
        fill_weights(policy, *change.weights);
    if (change.members)
        fill_members(policy, *change.members);
    policies_[vip] = policy;
    publish(vip);
}

void BalancerDevices::publish(uint32_t vip) {
    const DevicePolicy &source = policies_[vip];
    dcgym_lb_devices &to = devices(vip);
    const uint64_t sequence = dcgym_lb_open(to.policies, sizeof(dcgym_lb_device_policy));
    dcgym_lb_device_policy &buffer = to.policies[sequence % DCGYM_LB_BUFFERS];
    std::map<Slots, uint8_t> rings;
    buffer.time_ns = monotonic_ns();
    buffer.max_age_ns = source.max_age_ns;
    buffer.rule = source.rule;
    buffer.threshold = source.threshold;
    std::copy(source.present.begin(), source.present.end(), buffer.present);
    dcgym_fill_by_bits(buffer.by_bits);
    for (uint32_t server = 0; server < DCGYM_LB_SERVERS; server++) {
        Slots slots{};
        const uint32_t total = slots_of(source, server, slots);
        const auto [found, is_new] = rings.emplace(slots, static_cast<uint8_t>(rings.size()));
        const uint8_t ring = found->second;
        if (is_new) {
            buffer.ring_slots[ring] = total;
            dcgym_ring_fill(slots.data(), total, buffer.ring[ring]);
        }
        buffer.ring_of[server] = ring;
        std::copy(slots.begin(), slots.end(), buffer.weight[server]);
    }
    dcgym_lb_publish(to.policies, sizeof(dcgym_lb_device_policy), sequence);
}

} // namespace dcgym
