// SPDX-License-Identifier: Apache-2.0
// Writer of the policies between the devices of a server (include/balancer_devices.h), in whichever
// process maps them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "balancer_devices.h"
#include "common/mapping.hpp"

namespace dcgym {

// How the devices of a VIP's servers are chosen.
struct DevicePolicy {
    uint32_t rule = DCGYM_DEVICE_RULE_SERVER_ONLY;
    uint32_t threshold = DCGYM_FULL_LOAD; // prt: per cent
    uint64_t max_age_ns = 0;              // of reports; 0: any
    uint32_t ring_slots = DCGYM_RING_SLOTS;
    // By server number: bit d, device d takes new connections.
    std::array<uint8_t, DCGYM_LB_SERVERS> present;
    std::array<std::array<double, DCGYM_DEVICES>, DCGYM_LB_SERVERS> weight;
};

using Members = std::map<uint32_t, std::vector<uint32_t>>; // devices by server

// Row-major weights of 0 or more, by server number; what is missing is 0.
struct DeviceWeights {
    const double *values;
    size_t n_servers;
    size_t n_devices;
};

// What changes of a policy; the rest stays.
struct DeviceChange {
    std::optional<uint32_t> rule;
    std::optional<uint32_t> threshold;
    std::optional<uint64_t> max_age_ns;
    std::optional<DeviceWeights> weights;
    std::optional<uint32_t> ring_slots;
    std::optional<Members> members; // servers that are not named have their processors alone
};

// One writer a balancer: two would publish the same sequence.
class BalancerDevices {
  public:
    BalancerDevices(int device_map_fd, uint32_t n_vips);

    // All that is named takes effect with the same new connection, or is refused and nothing does.
    // Connections stay on their devices.
    void set_policy(uint32_t vip, const DeviceChange &change);

    dcgym_lb_devices &devices(uint32_t vip) const;

  private:
    DevicePolicy in_force(uint32_t vip) const;
    void publish(uint32_t vip);

    uint32_t n_vips_;
    std::unique_ptr<Mapping> mapping_;
    std::vector<DevicePolicy> policies_;
};

} // namespace dcgym
