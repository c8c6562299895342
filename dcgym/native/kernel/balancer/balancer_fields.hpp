// SPDX-License-Identifier: Apache-2.0
// What the loaders of the balancer and of its part at servers read from their callers.
#pragma once

#include <bpf/bpf.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "l4lb.h"

namespace dcgym {

// BPF_TCX_INGRESS and BPF_TCX_EGRESS, which the headers of older systems lack.
constexpr auto tcx_ingress = static_cast<bpf_attach_type>(46);
constexpr auto tcx_egress = static_cast<bpf_attach_type>(47);

constexpr uint32_t addresses_a_vip = 16; // pairs of address and port

// The MAC of a target as the programs compare it, in the low bytes.
uint64_t word(const dcgym_lb_target &target);

// Each raises ConfigError with the field's name.
void check_range(const char *field, uint64_t value, uint64_t least, uint64_t most);
uint32_t parse_choice(const char *field, const std::string &text,
                      std::initializer_list<const char *> names);
dcgym_lb_target parse_mac(const char *field, const std::string &text);
dcgym_lb_endpoint parse_endpoint(const char *field, const std::vector<std::string> &addresses);
dcgym_lb_vip_key parse_vip(const std::string &address, uint16_t port, const std::string &protocol);

} // namespace dcgym
