// SPDX-License-Identifier: Apache-2.0
#include "hmux.hpp"

#include <bpf/bpf.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "fabric.h"

namespace dcgym {
namespace {

static_assert(sizeof(dcgym_vip_entry) == sizeof(uint64_t));

// Widths of dcgym_vip_entry.
constexpr uint32_t most_entries = 1U << 16;

void check_in(const std::string &field, uint64_t value, uint64_t least, uint64_t most) {
    if (value < least || value > most)
        throw_config_error(field, std::to_string(value),
                           std::to_string(least) + " to " + std::to_string(most));
}

void check_size(const HmuxSize &size) {
    check_in("first_vip", size.first_vip, 1, DCGYM_FIRST_SWITCH_NUMBER - 1);
    check_in("n_vips", size.vips, 1, DCGYM_FIRST_SWITCH_NUMBER - size.first_vip);
    check_in("ecmp_entries", size.ecmp_entries, 1, most_entries);
    check_in("tunnel_entries", size.tunnel_entries, 1, most_entries);
}

void write(int map_fd, uint32_t key, const void *value, const char *what) {
    check(bpf_map_update_elem(map_fd, &key, value, BPF_ANY), std::string("cannot set ") + what);
}

} // namespace

void Hmux::configure(bpf_object *object, const HmuxSize &size, uint32_t switches) {
    const bool used = size.vips > 0;
    if (used)
        check_size(size);
    const std::array<std::pair<const char *, uint32_t>, 3> sizes = {{
        {"hmux_vips", switches * size.vips},
        {"hmux_ecmp", switches * size.ecmp_entries},
        {"hmux_tunnels", switches * size.tunnel_entries},
    }};
    for (const auto &[name, entries] : sizes)
        size_map(object, name, std::max(entries, 1U));
    for (const char *name : {"hmux_forward", "hmux_select"})
        check(bpf_program__set_autoload(bpf_object__find_program_by_name(object, name), used),
              std::string("no program ") + name);
    const dcgym_hmux_constants constants{
        size.seed,         size.first_vip,      size.vips, size.software_mux,
        size.ecmp_entries, size.tunnel_entries, 0};
    set_constants(object, constants, ".rodata.hmux");
}

Hmux::Hmux(const bpf_object *object, const HmuxSize &size, uint32_t switches, uint32_t hosts)
    : size_(size), switches_(switches), hosts_(hosts), vips_fd_(map_fd(object, "hmux_vips")),
      ecmp_fd_(map_fd(object, "hmux_ecmp")), tunnels_fd_(map_fd(object, "hmux_tunnels")) {}

void Hmux::set_vip(uint32_t switch_id, uint32_t vip, const dcgym_vip_entry &entry) const {
    check_in("switch_id", switch_id, 0, switches_ - 1);
    check_in("vip", vip, 0, size_.vips - 1);
    write(vips_fd_, switch_id * size_.vips + vip, &entry, "the route of a VIP");
}

void Hmux::set_route(uint32_t switch_id, uint32_t vip, uint32_t number) const {
    check_in("number", number, 0, hosts_);
    set_vip(switch_id, vip, {number, 0, 0});
}

void Hmux::check_block(uint32_t first_entry, uint32_t entries) const {
    check_in("first_entry", first_entry, 0, size_.ecmp_entries - 1);
    check_in("entries", entries, 1,
             std::min(size_.ecmp_entries - first_entry, uint32_t{UINT16_MAX}));
}

void Hmux::set_block(uint32_t switch_id, uint32_t vip, uint32_t first_entry,
                     uint32_t entries) const {
    check_block(first_entry, entries);
    // The number is not routed by, but it tells the entry from one that was never written.
    set_vip(switch_id, vip,
            {size_.first_vip + vip, static_cast<uint16_t>(first_entry),
             static_cast<uint16_t>(entries)});
}

void Hmux::set_local(uint32_t switch_id, uint32_t vip, uint32_t first_entry, uint32_t entries,
                     uint32_t number) const {
    check_block(first_entry, entries);
    check_in("number", number, 0, std::min(hosts_, size_.first_vip - 1));
    set_vip(switch_id, vip,
            {number, static_cast<uint16_t>(first_entry), static_cast<uint16_t>(entries)});
}

void Hmux::set_entry(uint32_t switch_id, uint32_t index, uint32_t tunnel) const {
    check_in("switch_id", switch_id, 0, switches_ - 1);
    check_in("index", index, 0, size_.ecmp_entries - 1);
    check_in("tunnel", tunnel, 0, size_.tunnel_entries - 1);
    const dcgym_hmux_entry entry = tunnel + 1;
    write(ecmp_fd_, switch_id * size_.ecmp_entries + index, &entry, "an equal-cost entry");
}

void Hmux::set_tunnel(uint32_t switch_id, uint32_t index, uint32_t host_number) const {
    check_in("switch_id", switch_id, 0, switches_ - 1);
    check_in("index", index, 0, size_.tunnel_entries - 1);
    check_in("host_number", host_number, 1, hosts_);
    write(tunnels_fd_, switch_id * size_.tunnel_entries + index, &host_number, "a tunnel");
}

// Programs run within RCU's read-side sections, and this command waits for those that have begun
// (membarrier(2), synchronize_rcu() in kernel/sched/membarrier.c); with one processor, there are
// none while we run.
void Hmux::wait_for_readers() {
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0 ? -errno : 0,
          "cannot wait for the switches' packets");
}

} // namespace dcgym
