// SPDX-License-Identifier: Apache-2.0
// Loader of l4lb.bpf.o: one layer-4 balancer, its VIPs, their servers, its flow table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "balancer_devices.hpp"
#include "balancer_pools.hpp"
#include "common/bpf_object.hpp"
#include "l4lb.h"
#include "prequal_settings.hpp"
#include "veth_xdp.hpp"

namespace dcgym {

struct BalancerSize {
    uint32_t vips;
    uint32_t flow_entries; // 0: flows are not tracked
    uint64_t seed;         // balancers of one seed agree where the hash leads
    uint64_t stream;       // of random draws: one of their own each
    bool collects;         // samples, beside the counters
    uint64_t snapshot_interval_ns;
    bool devices; // servers may have several
};

struct BalancerMode {
    std::string consistency; // "table", "cookie", "none" or "rule"
    std::string delivery;    // "l2" or "ipip"
    std::string hook;        // "tc", or "xdp" in the driver
    std::string pin_path;    // a directory on a bpffs that keeps flows beyond this object, or ""
    bool times_select;       // the program that `time_select` runs is loaded too
};

// Whom the balancer is to its neighbours. Empty texts stand for the defaults.
struct BalancerIdentity {
    std::string mac;
    uint32_t further_macs;                // so many after mac are its own too
    std::string source_mac;               // of what it sends; mac by default
    std::string gateway_mac;              // next hop of SYN-ACKs that come by tunnel
    std::vector<std::string> tunnel_from; // an address a family
};

struct BalancerTimeouts {
    uint64_t syn_ns;
    uint64_t tcp_ns;
    uint64_t udp_ns;
    uint64_t closed_ns; // by a RST
    uint64_t half_closed_ns;
};

// The messages between a balancer and its servers.
struct BalancerMessages {
    std::string address; // the balancer's own, IPv4; "": none come
    uint32_t balancers;  // that the servers have
    PrequalConfig prequal;
    uint64_t c3_reset_ns; // 0: never
};

// The last two as IPVS and conntrack have them (CLOSE, FIN_WAIT).
constexpr BalancerTimeouts default_timeouts = {5'000'000'000, 300'000'000'000, 30'000'000'000,
                                               10'000'000'000, 120'000'000'000};

class Balancer {
  public:
    Balancer(const std::string &object_path, const BalancerIdentity &identity,
             const BalancerSize &size, const BalancerMode &mode);

    // Adds an address and port to a VIP.
    void add_vip(uint32_t vip, const std::string &address, uint16_t port,
                 const std::string &protocol);
    // All servers of a VIP by number; a number that is missing, or has another MAC or address than
    // before, loses its flows. Addresses are the ends of tunnels, at most one a family.
    void set_servers(uint32_t vip, const std::map<uint32_t, std::string> &macs,
                     const std::map<uint32_t, std::vector<std::string>> &addresses);
    // All accelerators of a server by their numbers, from 1; a number that is missing, or has
    // another MAC or address than before, loses its connections. Each reports for itself.
    void set_accelerators(uint32_t vip, uint32_t server,
                          const std::map<uint32_t, std::string> &macs,
                          const std::map<uint32_t, std::vector<std::string>> &addresses);
    // MACs that may report of devices of a server, the processors included, beside their own.
    void set_agents(uint32_t vip, uint32_t server, const std::map<uint32_t, std::string> &macs);
    void set_timeouts(const BalancerTimeouts &timeouts);
    // Flows that their clients have only opened and that count as ongoing, at most, of each VIP.
    void set_half_open_limit(uint64_t limit);

    void set_messages(const BalancerMessages &messages);

    // The writer of this process; outlives the balancer as long as somebody holds it.
    std::shared_ptr<BalancerPools> pools() const;
    // The same of policies between devices; raises where servers have none.
    std::shared_ptr<BalancerDevices> devices() const;
    int device_map_fd() const { return map_fd(object(), "devices"); }
    int region_map_fd() const { return map_fd(object(), "regions"); }
    int counter_map_fd() const { return map_fd(object(), "counters"); }
    int probe_map_fd() const { return map_fd(object(), "probes"); }

    // Forgets flows, counters and samples, as a balancer that has just begun; its VIPs, servers,
    // pools and interfaces stay. No packets may come meanwhile.
    void clear();

    // On what an interface of the caller's network namespace receives. Links hold the programs
    // there: they go with this object or its process, whatever namespace that is in. At XDP's hook
    // the other end of the veth pair gets a program too, and a probe must come back to it.
    void attach(uint32_t ifindex, const Peer &peer);
    void detach(uint32_t ifindex);
    void check_path(const Peer &peer) const;
    bool times_select() const { return times_select_; }
    const char *program() const { return at_xdp_ ? "l4lb_xdp" : "l4lb_balance"; }
    TestRun test_run(const char *program, const std::string &packet, uint32_t repeat) const;

    // Detaches and releases programs and maps; idempotent.
    void close();

  private:
    bpf_object *object() const;
    void resize_maps();
    void pin_maps(const std::string &directory);
    uint32_t witnesses() const;
    void set_constants(const BalancerMode &mode);
    void set_hook(const BalancerMode &mode);
    void set_identity(const BalancerIdentity &identity);
    void set_server(uint32_t index, dcgym_lb_target wanted, const dcgym_lb_endpoint &end);
    void set_agent(uint32_t index, uint64_t mac);
    uint32_t index_of(uint32_t vip, uint32_t server, uint32_t device) const;
    dcgym_lb_target target_of_mac(const std::string &mac) const;
    void check_devices() const;
    void clear_devices();
    void begin_state(uint32_t vip);
    uint16_t next_generation(uint32_t index);
    void start();
    dcgym_lb_control &control() const;

    void link(uint32_t ifindex, const char *program, int where, uint32_t owner, int namespace_fd);

    BalancerSize size_;
    bool at_xdp_ = false;
    bool tracks_;
    bool times_select_;
    ObjectPtr object_;
    std::unique_ptr<Mapping> control_;
    std::shared_ptr<BalancerPools> pools_;
    std::shared_ptr<BalancerDevices> devices_;
    std::multimap<uint32_t, Descriptor> attached_; // links, by interface
};

// Packets dropped by reason, and what else happened, from the descriptor of the counters.
std::map<std::string, uint64_t> balancer_counters(int counter_map_fd);

} // namespace dcgym
