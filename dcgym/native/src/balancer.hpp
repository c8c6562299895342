// SPDX-License-Identifier: Apache-2.0
// Loader of l4lb.bpf.o: one layer-4 balancer, its VIPs, their servers, its flow table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "balancer_pools.hpp"
#include "bpf_object.hpp"
#include "l4lb.h"

namespace dcgym {

struct BalancerSize {
    uint32_t vips;
    uint32_t flow_entries;
    uint64_t seed;
    bool collects; // samples, beside the counters
    uint64_t snapshot_interval_ns;
};

struct BalancerTimeouts {
    uint64_t syn_ns;
    uint64_t tcp_ns;
    uint64_t udp_ns;
    uint64_t closed_ns;
};

class Balancer {
  public:
    Balancer(const std::string &object_path, const std::string &mac, const BalancerSize &size);

    // Adds an address and port to a VIP.
    void add_vip(uint32_t vip, const std::string &address, uint16_t port,
                 const std::string &protocol);
    // All servers of a VIP by number; a number that is missing, or has another MAC than before,
    // loses its flows.
    void set_servers(uint32_t vip, const std::map<uint32_t, std::string> &macs);
    void set_timeouts(const BalancerTimeouts &timeouts);

    // The writer of this process; outlives the balancer as long as somebody holds it.
    std::shared_ptr<BalancerPools> pools() const;
    int region_map_fd() const { return map_fd(object(), "regions"); }
    int counter_map_fd() const { return map_fd(object(), "counters"); }

    // Forgets flows, counters and samples, as a balancer that has just begun; its VIPs, servers,
    // pools and interfaces stay. No packets may come meanwhile.
    void clear();

    // On what an interface of the caller's network namespace receives. A link holds the program
    // there: it goes with this object or its process, whatever namespace that is in.
    void attach(uint32_t ifindex);
    void detach(uint32_t ifindex);
    TestRun test_run(const char *program, const std::string &packet, uint32_t repeat) const;

    // Detaches and releases programs and maps; idempotent.
    void close();

  private:
    bpf_object *object() const;
    void resize_maps();
    void set_constants();
    void begin_states();
    void start();
    dcgym_lb_control &control() const;

    BalancerSize size_;
    ObjectPtr object_;
    std::unique_ptr<Mapping> control_;
    std::shared_ptr<BalancerPools> pools_;
    std::map<uint32_t, uint16_t> generations_;     // last one of each target
    std::multimap<uint32_t, Descriptor> attached_; // links, by interface
};

// Packets dropped by reason, and what else happened, from the descriptor of the counters.
std::map<std::string, uint64_t> balancer_counters(int counter_map_fd);

} // namespace dcgym
