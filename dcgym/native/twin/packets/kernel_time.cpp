// SPDX-License-Identifier: Apache-2.0
#include "kernel_time.hpp"

#include <algorithm>

namespace dcgym::twin::packets {
namespace {

std::array<uint32_t, late_quantiles> late_quantiles_ns() {
    std::array<uint32_t, late_quantiles> found{};
    const size_t usual = late_quantiles - late_held_up;
    for (size_t i = 0; i < late_quantiles; i++) {
        const bool is_usual = i < usual;
        const auto place = static_cast<double>(is_usual ? i : i - usual) + 0.5;
        const double left = 1 - place / static_cast<double>(is_usual ? usual : late_held_up);
        const double beyond_ns = is_usual ? late_beyond_ns : late_held_up_ns;
        found[i] = static_cast<uint32_t>(late_least_ns - beyond_ns * portable_log(left));
    }
    return found;
}

constexpr int64_t ticks_of_level = 63; // LVL_START of the second level
constexpr int64_t level_factor = 8;    // LVL_CLK_DIV

} // namespace

const std::array<uint32_t, late_quantiles> Lateness::quantiles = late_quantiles_ns();

int64_t Clock::fires_ns(int64_t now_ns, int64_t wait_ns) const {
    const int64_t ticks = (wait_ns + tick_ns - 1) / tick_ns;
    int64_t grain = 1;
    for (int64_t most = ticks_of_level; ticks >= most; most *= level_factor)
        grain *= level_factor;
    const int64_t expires = (now_ns + booted_ns_) / tick_ns + ticks;
    return (expires + grain) / grain * grain * tick_ns - booted_ns_;
}

} // namespace dcgym::twin::packets
