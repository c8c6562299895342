// SPDX-License-Identifier: Apache-2.0
// The tables by which the switches of a fabric are hardware muxes.
#pragma once

#include "common/bpf_object.hpp"
#include "hmux.h"

#include <cstdint>
#include <string>

namespace dcgym {

struct HmuxSize {
    uint64_t seed = 0;         // of the flow hash, the software muxes'
    uint32_t vips = 0;         // 0: the switches are no muxes
    uint32_t first_vip = 0;    // number of the first one
    uint32_t software_mux = 0; // number that their prefix is routed to; 0: none
    uint32_t ecmp_entries = 0;
    uint32_t tunnel_entries = 0;
};

// Writes single entries. Who calls keeps the order: an entry is used by nobody when it changes,
// unless it changes to what its users are to find.
class Hmux {
  public:
    Hmux(const bpf_object *object, const HmuxSize &size, uint32_t switches, uint32_t hosts);

    // Before the object is loaded: sizes of the maps, constants, and which programs are loaded.
    static void configure(bpf_object *object, const HmuxSize &size, uint32_t switches);

    // The /32 of a VIP: a route to a number; 0 withdraws it, and the VIPs' prefix holds.
    void set_route(uint32_t switch_id, uint32_t vip, uint32_t number) const;
    // The /32 of a VIP that this switch is the mux of.
    void set_block(uint32_t switch_id, uint32_t vip, uint32_t first_entry, uint32_t entries) const;
    // The /32 of a VIP of which this switch serves its own hosts; others' packets are routed.
    void set_local(uint32_t switch_id, uint32_t vip, uint32_t first_entry, uint32_t entries,
                   uint32_t number) const;
    void set_entry(uint32_t switch_id, uint32_t index, uint32_t tunnel) const;
    void set_tunnel(uint32_t switch_id, uint32_t index, uint32_t host_number) const;
    // Until no packet is under way in a program that found what was set before.
    static void wait_for_readers();

  private:
    void set_vip(uint32_t switch_id, uint32_t vip, const dcgym_vip_entry &entry) const;
    void check_block(uint32_t first_entry, uint32_t entries) const;

    HmuxSize size_;
    uint32_t switches_, hosts_;
    int vips_fd_, ecmp_fd_, tunnels_fd_;
};

} // namespace dcgym
