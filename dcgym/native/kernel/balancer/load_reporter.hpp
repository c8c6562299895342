// SPDX-License-Identifier: Apache-2.0
// Loader of l4lb_server.bpf.o: the balancer's part at one server.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/bpf_object.hpp"
#include "l4lb.h"

namespace dcgym {

struct ReporterMode {
    bool cookies;                       // its timestamps bear the server's number
    bool reports;                       // its SYN-ACKs return through the balancer
    std::vector<std::string> addresses; // the server's ends of tunnels, at most one a family
    int64_t epoch_ms;                   // of the timestamps, below 0: now
};

// A map of loads, one row a server; the descriptor is the caller's.
int create_load_map(uint32_t n_servers);

class LoadReporter {
  public:
    // `load_map_fd` names a map of create_load_map(), or -1 for one of its own.
    LoadReporter(const std::string &object_path, uint32_t server, int load_map_fd,
                 const ReporterMode &mode);

    void add_vip(const std::string &address, uint16_t port);
    // Lets the server tell so many times its flows.
    void set_factor(double factor);
    int load_map_fd() const { return map_fd(object(), "loads"); }
    uint32_t epoch_ms() const { return constants_.epoch_ms; }

    // On an interface of a network namespace (-1: the caller's), both ways; one at a time.
    void attach(uint32_t ifindex, int namespace_fd);
    TestRun test_run(const char *program, const std::string &packet) const;

    // Detaches and releases programs and maps; idempotent.
    void close();

  private:
    bpf_object *object() const;

    dcgym_lb_server_constants constants_{};
    ObjectPtr object_;
    std::array<Descriptor, 2> links_; // ingress, egress
};

} // namespace dcgym
