// SPDX-License-Identifier: Apache-2.0
#include "load_reporter.hpp"

#include <bpf/bpf.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>
#include <utility>

#include "balancer_fields.hpp"
#include "common/clock.hpp"
#include "common/namespaces.hpp"
#include "http.h"

namespace dcgym {
namespace {

static_assert(sizeof(dcgym_lb_report) == 20);
static_assert(sizeof(dcgym_lb_load) == sizeof(dcgym_http_server));
static_assert(offsetof(dcgym_lb_load, workers) == offsetof(dcgym_http_server, workers));
static_assert(offsetof(dcgym_lb_load, mean_service_ns) ==
              offsetof(dcgym_http_server, mean_service_ns));

constexpr uint32_t most_ports = 2 * DCGYM_LB_MAX_VIPS; // one a VIP in each family
constexpr uint32_t epoch_margin_ms = 1U << 16;         // SYN cookies set timestamps back a little
constexpr const char *timestamps_path = "/proc/sys/net/ipv4/tcp_timestamps";

// As the calling thread's network namespace has it.
std::string read_timestamps() {
    std::string value;
    std::ifstream(timestamps_path) >> value;
    return value;
}

} // namespace

int create_load_map(uint32_t n_servers) {
    check_range("n_servers", n_servers, 1, DCGYM_LB_SERVERS);
    LIBBPF_OPTS(bpf_map_create_opts, options);
    options.map_flags = BPF_F_MMAPABLE;
    return check(bpf_map_create(BPF_MAP_TYPE_ARRAY, "loads", sizeof(uint32_t),
                                sizeof(dcgym_lb_load), n_servers, &options),
                 "cannot create the map of loads");
}

LoadReporter::LoadReporter(const std::string &object_path, uint32_t server, int load_map_fd,
                           const ReporterMode &mode) {
    check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
    constants_.server = server;
    constants_.cookies = mode.cookies;
    constants_.reports = mode.reports;
    constants_.tunnel_to = parse_endpoint("addresses", mode.addresses);
    constants_.epoch_ms = mode.epoch_ms < 0
                              ? static_cast<uint32_t>(monotonic_ns() / 1'000'000) - epoch_margin_ms
                              : static_cast<uint32_t>(mode.epoch_ms);
    const std::string bytes = read_object(object_path);
    object_ = open_object(bytes, object_path);
    set_constants(object(), constants_);
    size_map(object(), "vips", most_ports);
    if (load_map_fd >= 0)
        check(bpf_map__reuse_fd(find_map(object(), "loads"), load_map_fd),
              "cannot use the map of loads");
    check(bpf_object__load(object()), "cannot load the BPF object " + object_path);
}

bpf_object *LoadReporter::object() const {
    if (!object_)
        throw_backend_error("the load reporter is closed", EBADF);
    return object_.get();
}

void LoadReporter::add_vip(const std::string &address, uint16_t port) {
    const dcgym_lb_vip_key key = parse_vip(address, port, "tcp");
    const uint32_t vip = 0;
    check(bpf_map_update_elem(map_fd(object(), "vips"), &key, &vip, BPF_ANY), "cannot add the VIP");
}

void LoadReporter::set_factor(double factor) {
    constexpr double most = 65'535;
    if (!(factor >= 0 && factor <= most))
        throw_config_error("factor", std::to_string(factor), "0 to 65535");
    const uint32_t zero = 0;
    const uint64_t claim = factor == 1 ? 0 : static_cast<uint64_t>(factor * 0x1p16) + 1;
    check(bpf_map_update_elem(map_fd(object(), "claims"), &zero, &claim, BPF_ANY),
          "cannot set the factor of reports");
}

// Restoring an echo needs timestamps that are the machine's clock, without an offset of the flow's.
void LoadReporter::attach(uint32_t ifindex, int namespace_fd) {
    constexpr std::array<std::pair<const char *, bpf_attach_type>, 2> programs = {{
        {"server_ingress", tcx_ingress},
        {"server_egress", tcx_egress},
    }};
    std::string timestamps;
    in_namespace(namespace_fd, [&] { timestamps = read_timestamps(); });
    if (constants_.cookies && timestamps != "2")
        throw_config_error("net.ipv4.tcp_timestamps", timestamps,
                           "2 in a server's namespace: timestamps without a random offset");
    for (size_t i = 0; i < programs.size(); i++) {
        const int program = program_fd(object(), programs[i].first);
        int link = -1;
        in_namespace(namespace_fd, [&] {
            link = bpf_link_create(program, static_cast<int>(ifindex), programs[i].second, nullptr);
        });
        links_[i].reset(check(link, "cannot attach the load reporter to interface " +
                                        std::to_string(ifindex) + " (a tcx link needs Linux 6.6)"));
    }
}

TestRun LoadReporter::test_run(const char *program, const std::string &packet) const {
    return run_on_packet(program_fd(object(), program), packet, 0, 1);
}

void LoadReporter::close() {
    for (Descriptor &link : links_)
        link.reset();
    object_.reset();
}

} // namespace dcgym
