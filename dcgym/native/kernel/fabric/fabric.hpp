// SPDX-License-Identifier: Apache-2.0
// Loader of fabric.bpf.o: the switches of one emulation, all in one network namespace.
#pragma once

#include "common/bpf_object.hpp"
#include "fabric.h"
#include "groups.hpp"
#include "hmux.hpp"
#include "path_rules.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dcgym {

struct FabricSize {
    uint32_t switches;
    uint32_t hosts;
    uint32_t ports;
    uint32_t groups;
    uint32_t ifindexes;
    bool has_flow_matrix;
    uint32_t flow_entries; // of the flow table; 0: none
    uint32_t least_mtu;    // no port has a smaller one; 0: unknown
    uint32_t path_rule;    // one of dcgym_path_rule
    bool has_labels;       // senders label their flows
    HmuxSize hmux = {};    // with VIPs, the switches are muxes
};

// Number of a rule by its name.
uint32_t find_path_rule(const std::string &name);

class Fabric {
  public:
    Fabric(const std::string &object_path, const FabricSize &size);

    void set_port(uint32_t ifindex, const dcgym_port_config &config);
    void set_route(uint32_t switch_id, uint32_t host_number, uint32_t group_id);
    void clear_route(uint32_t switch_id, uint32_t host_number);
    // Probabilities for packets that arrive and that leave; set_port overwrites them.
    void set_loss(uint32_t ifindex, double in, double out);
    void attach(uint32_t ifindex, bool forward = true);
    void detach(uint32_t ifindex);

    // The groups, to be written here; another process maps them through the two descriptors.
    GroupTable &groups() const;
    int group_map_fd() const { return map_fd("groups"); }
    int control_map_fd() const { return map_fd(".bss.control"); }

    // The tables of switches that are muxes; valid until the fabric is closed.
    Hmux hmux() const;

    int port_map_fd() const;
    // Bytes by port and source host, row by row; counted only if the size says so.
    int flow_map_fd() const;
    std::map<std::string, uint64_t> drop_counters() const;
    // Labels by flow, for the senders' congestion control to write.
    int label_map_fd() const { return map_fd("labels"); }

    // Runs a program on a packet, over and over.
    TestRun test_run(const char *program, const std::string &packet, uint32_t ifindex,
                     uint32_t repeat = 1) const;
    // RED's average of the queue at a port, in bytes.
    double red_average_bytes(uint32_t port_id) const;
    void reset_red();
    // Begins the draws of paths anew; every CPU has a stream of its own, number 0 that of the seed.
    void seed_paths(uint64_t seed);

    // Releases programs and maps that nothing else holds; idempotent.
    void close() {
        groups_.reset();
        object_.reset();
    }

  private:
    void resize_maps();
    void update(const char *map, uint32_t key, const void *value, size_t value_bytes);
    bpf_object *object() const;
    int map_fd(const char *name) const;
    void learn_device(uint32_t ifindex);
    void attach_program(uint32_t ifindex, bpf_tc_attach_point point, const char *program);

    FabricSize size_;
    ObjectPtr object_;
    std::unique_ptr<GroupTable> groups_;
};

} // namespace dcgym
