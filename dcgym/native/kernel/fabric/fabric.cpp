// SPDX-License-Identifier: Apache-2.0
#include "fabric.hpp"

#include "plb.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace dcgym {
namespace {

constexpr const char *drop_names[] = {
#define DCGYM_ROW(symbol, name, ...) name,
#include "tables/drop_reasons.h"
};
static_assert(sizeof(dcgym_port_counters) == (4 + DCGYM_HISTOGRAM_BUCKETS) * sizeof(uint64_t));
static_assert(sizeof(dcgym_port_config) == 64);

void check_below(const std::string &field, uint64_t value, uint64_t limit) {
    if (value >= limit)
        throw_config_error(field, std::to_string(value), "0 to " + std::to_string(limit - 1));
}

void check_size(const FabricSize &size) {
    const std::array<std::pair<const char *, uint32_t>, 5> fields = {{
        {"n_switches", size.switches},
        {"n_hosts", size.hosts},
        {"n_ports", size.ports},
        {"n_groups", size.groups},
        {"n_ifindex", size.ifindexes},
    }};
    for (const auto &[name, value] : fields)
        if (value == 0)
            throw_config_error(name, "0", "1 or more");
    if (uint64_t{size.switches} * size.hosts > UINT32_MAX)
        throw_config_error("n_switches", std::to_string(size.switches),
                           "n_switches * n_hosts below 2^32");
    if (size.has_flow_matrix && uint64_t{size.ports} * size.hosts > UINT32_MAX)
        throw_config_error("n_ports", std::to_string(size.ports), "n_ports * n_hosts below 2^32");
}

bpf_tc_hook hook(uint32_t ifindex, int point) {
    bpf_tc_hook result{};
    result.sz = sizeof(result);
    result.ifindex = static_cast<int>(ifindex);
    result.attach_point = static_cast<bpf_tc_attach_point>(point);
    return result;
}

constexpr const char *path_rule_names[] = {
#define DCGYM_ROW(symbol, name, ...) name,
#include "tables/path_rules.h"
};

uint64_t random_seed() {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        throw_backend_error("cannot seed the draws of paths", errno);
    return seed;
}

} // namespace

uint32_t find_path_rule(const std::string &name) {
    std::string known;
    for (uint32_t rule = 0; rule < DCGYM_PATH_RULES; rule++) {
        if (name == path_rule_names[rule])
            return rule;
        known += (rule == 0 ? "" : ", ") + std::string(path_rule_names[rule]);
    }
    throw_config_error("path_rule", name, "one of " + known);
}

Fabric::Fabric(const std::string &object_path, const FabricSize &size) : size_(size) {
    check_size(size);
    const std::string bytes = read_object(object_path);
    object_ = open_object(bytes, object_path);
    resize_maps();
    check(bpf_object__load(object()), "cannot load the BPF object " + object_path);
    groups_ = std::make_unique<GroupTable>(group_map_fd(), control_map_fd(), size_.groups);
    seed_paths(random_seed());
}

bpf_object *Fabric::object() const {
    if (!object_)
        throw_backend_error("the fabric is closed", EBADF);
    return object_.get();
}

void Fabric::resize_maps() {
    const uint32_t cells = size_.has_flow_matrix ? size_.ports * size_.hosts : 1;
    const bool reads_queues = size_.path_rule == DCGYM_PATH_DRILL;
    const std::array<std::pair<const char *, uint32_t>, 11> sizes = {{
        {"ports", size_.ifindexes},
        {"routes", size_.switches * size_.hosts},
        {"groups", size_.groups},
        {"counters", size_.ports},
        {"red_states", size_.ports},
        {"answers", size_.switches},
        {"flow_bytes", cells},
        {"flows", std::max(size_.flow_entries, 1u)},
        {"labels", size_.has_labels ? DCGYM_LABELS : 1},
        {"devices", reads_queues ? size_.ifindexes : 1},
        {"drill_memory", reads_queues ? size_.groups : 1},
    }};
    for (const auto &[name, entries] : sizes)
        size_map(object(), name, entries);
    const dcgym_fabric_constants constants{size_.hosts,        size_.has_flow_matrix,
                                           size_.flow_entries, size_.least_mtu,
                                           size_.path_rule,    size_.has_labels};
    set_constants(object(), constants);
    Hmux::configure(object(), size_.hmux, size_.switches);
}

Hmux Fabric::hmux() const {
    if (size_.hmux.vips == 0)
        throw_config_error("n_vips", "0", "1 or more, for switches that are muxes");
    return {object(), size_.hmux, size_.switches, size_.hosts};
}

int Fabric::map_fd(const char *name) const {
    return dcgym::map_fd(object(), name);
}

void Fabric::update(const char *map, uint32_t key, const void *value, size_t value_bytes) {
    check(bpf_map__update_elem(find_map(object(), map), &key, sizeof(key), value, value_bytes,
                               BPF_ANY),
          std::string("cannot update the map ") + map);
}

void Fabric::set_port(uint32_t ifindex, const dcgym_port_config &config) {
    check_below("ifindex", ifindex, size_.ifindexes);
    check_below("switch_id", config.switch_id, size_.switches);
    check_below("port_id", config.port_id, size_.ports);
    check_below("mark_probability", config.mark_probability, DCGYM_PROBABILITY_ONE + 1);
    check_below("mark_weight", config.mark_weight, DCGYM_PROBABILITY_ONE + 1);
    if (config.mark_weight == 0)
        throw_config_error("mark_weight", "0", "1 or more, of PROBABILITY_ONE");
    if (config.mark_max_bytes < config.mark_min_bytes)
        throw_config_error("mark_max_bytes", std::to_string(config.mark_max_bytes),
                           "mark_min_bytes or more");
    update("ports", ifindex, &config, sizeof(config));
}

void Fabric::seed_paths(uint64_t seed) {
    std::vector<uint64_t> states(check(libbpf_num_possible_cpus(), "cannot count CPUs"));
    // 2^56 draws or more lie between two streams, as the generator counts in odd steps.
    for (size_t cpu = 0; cpu < states.size(); cpu++)
        states[cpu] = seed + (uint64_t{cpu} << 56);
    update("path_randoms", 0, states.data(), states.size() * sizeof(uint64_t));
}

// The program of the rule drill finds queues by the kernel's own devices.
void Fabric::learn_device(uint32_t ifindex) {
    check_below("ifindex", ifindex, size_.ifindexes);
    test_run("fabric_learn", std::string(ETH_HLEN + 1, '\0'), ifindex);
}

void Fabric::reset_red() {
    const dcgym_red fresh{};
    for (uint32_t port = 0; port < size_.ports; port++)
        update("red_states", port, &fresh, sizeof(fresh));
}

double Fabric::red_average_bytes(uint32_t port_id) const {
    check_below("port_id", port_id, size_.ports);
    dcgym_red state{};
    check(bpf_map_lookup_elem(map_fd("red_states"), &port_id, &state), "cannot read RED's average");
    return static_cast<double>(state.average) / (1 << DCGYM_RED_FRACTION_BITS);
}

GroupTable &Fabric::groups() const {
    if (!groups_)
        throw_backend_error("the fabric is closed", EBADF);
    return *groups_;
}

void Fabric::set_route(uint32_t switch_id, uint32_t host_number, uint32_t group_id) {
    check_below("switch_id", switch_id, size_.switches);
    check_below("group_id", group_id, size_.groups);
    if (host_number == 0 || host_number > size_.hosts)
        throw_config_error("host_number", std::to_string(host_number),
                           "1 to " + std::to_string(size_.hosts));
    const uint32_t value = group_id + 1;
    update("routes", switch_id * size_.hosts + host_number - 1, &value, sizeof(value));
}

void Fabric::clear_route(uint32_t switch_id, uint32_t host_number) {
    check_below("switch_id", switch_id, size_.switches);
    check_below("host_number", host_number, size_.hosts + 1);
    const uint32_t none = 0;
    update("routes", switch_id * size_.hosts + host_number - 1, &none, sizeof(none));
}

void Fabric::set_loss(uint32_t ifindex, double in, double out) {
    check_below("ifindex", ifindex, size_.ifindexes);
    for (const double probability : {in, out})
        if (!(probability >= 0 && probability <= 1))
            throw_config_error("probability", std::to_string(probability), "0 to 1");
    dcgym_port_config config{};
    check(bpf_map_lookup_elem(map_fd("ports"), &ifindex, &config), "cannot read the map ports");
    const auto scaled = [](double probability) {
        return static_cast<uint32_t>(std::min(std::floor(probability * 0x1p32), 0xffffffffp0));
    };
    config.loss_in = scaled(in);
    config.loss_out = scaled(out);
    set_port(ifindex, config);
}

void Fabric::attach_program(uint32_t ifindex, bpf_tc_attach_point point, const char *program) {
    const bpf_tc_hook where = hook(ifindex, point);
    LIBBPF_OPTS(bpf_tc_opts, options);
    options.prog_fd = program_fd(object(), program);
    options.handle = 1;
    options.priority = 2; // after the programs of link delay (link_delay.cpp)
    options.flags = BPF_TC_F_REPLACE;
    check(bpf_tc_attach(&where, &options),
          std::string("cannot attach ") + program + " to interface " + std::to_string(ifindex));
}

void Fabric::attach(uint32_t ifindex, bool forward) {
    bpf_tc_hook both = hook(ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS);
    const int created = bpf_tc_hook_create(&both);
    if (created != -EEXIST)
        check(created, "cannot add clsact to interface " + std::to_string(ifindex));
    if (forward && size_.path_rule == DCGYM_PATH_DRILL)
        learn_device(ifindex);
    if (forward)
        attach_program(ifindex, BPF_TC_INGRESS,
                       size_.hmux.vips > 0 ? "hmux_forward" : "fabric_forward");
    attach_program(ifindex, BPF_TC_EGRESS, "fabric_egress");
}

void Fabric::detach(uint32_t ifindex) {
    bpf_tc_hook both = hook(ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS);
    check(bpf_tc_hook_destroy(&both),
          "cannot remove clsact from interface " + std::to_string(ifindex));
    const uint64_t none = 0;
    if (size_.path_rule == DCGYM_PATH_DRILL)
        update("devices", ifindex, &none, sizeof(none));
}

int Fabric::port_map_fd() const {
    return map_fd("counters");
}

int Fabric::flow_map_fd() const {
    return map_fd("flow_bytes");
}

std::map<std::string, uint64_t> Fabric::drop_counters() const {
    std::vector<uint64_t> per_cpu(check(libbpf_num_possible_cpus(), "cannot count CPUs"));
    const int descriptor = map_fd("drops");
    std::map<std::string, uint64_t> result;
    for (uint32_t reason = 0; reason < DCGYM_DROP_REASONS; reason++) {
        check(bpf_map_lookup_elem(descriptor, &reason, per_cpu.data()), "cannot read drops");
        result[drop_names[reason]] = std::accumulate(per_cpu.begin(), per_cpu.end(), uint64_t{0});
    }
    return result;
}

TestRun Fabric::test_run(const char *program, const std::string &packet, uint32_t ifindex,
                         uint32_t repeat) const {
    return run_on_packet(program_fd(object(), program), packet, ifindex, repeat);
}

} // namespace dcgym
