// SPDX-License-Identifier: Apache-2.0
// Writer of a balancer's pools (include/balancing.h), in whichever process maps the regions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "balancing.h"
#include "common/mapping.hpp"

namespace dcgym {

// What a pool is made of: a weight a server.
struct Pool {
    uint32_t rule = DCGYM_RULE_ECMP;
    std::vector<uint16_t> servers;
    std::vector<double> weights;
};

// One writer a region: two would publish the same sequence.
class BalancerPools {
  public:
    BalancerPools(int region_map_fd, uint32_t n_vips);

    // Each takes effect with the next new flow, whole.
    void replace(uint32_t vip, Pool pool);
    void set_rule(uint32_t vip, uint32_t rule);
    // One weight a server, in the pool's order.
    void set_weights(uint32_t vip, const double *weights, size_t n_weights);

    dcgym_lb_region &region(uint32_t vip) const;

  private:
    Pool in_force(uint32_t vip) const;
    Pool &pool(uint32_t vip);
    void publish(uint32_t vip);

    uint32_t n_vips_;
    std::unique_ptr<Mapping> mapping_;
    std::vector<Pool> pools_;
};

} // namespace dcgym
