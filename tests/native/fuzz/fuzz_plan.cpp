// SPDX-License-Identifier: Apache-2.0
// Any memory file as the generator's plan: it is refused, or every flow of it can be run.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "flows/plan.hpp"
#include "plan_file.hpp"

namespace {

using dcgym_fuzz::require;

/// Flows that wait for none come by their start, the others each behind one earlier flow.
void check_order(const dcgym::Plan &plan) {
    std::size_t known = plan.by_start().size();
    std::int64_t last_ns = 0;
    for (const std::uint32_t id : plan.by_start()) {
        require(id < plan.size() && plan.flow(id).start_ns >= last_ns);
        last_ns = plan.flow(id).start_ns;
    }
    for (std::size_t id = 0; id < plan.size(); ++id)
        for (const std::uint32_t next : plan.successors(id)) {
            require(next > id && next < plan.size());
            ++known;
        }
    require(known == plan.size());
}

void check_runs(const dcgym::Plan &plan, std::size_t n_hosts) {
    for (std::size_t id = 0; id < plan.size(); ++id) {
        const dcgym::RunSpec run = plan.run(id, 0, plan.flow(id).start_ns);
        require(run.src < n_hosts && run.dst < n_hosts && run.src != run.dst);
        require(run.port > 0 && run.planned_start_ns >= 0);
    }
}

} // namespace

/// First byte: number of hosts; second: how many flows more or fewer than the file holds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size < 2)
        return 0;
    const std::size_t n_hosts = data[0] % 8;
    const std::size_t held = (size - 2) / sizeof(dcgym_generator_flow);
    const std::size_t n_flows = held + static_cast<std::size_t>(static_cast<std::int8_t>(data[1]));
    const dcgym::Fd file = dcgym_fuzz::make_plan_file(data + 2, size - 2);
    try {
        const dcgym::Plan plan{file.get(), n_flows, std::vector<std::string>(n_hosts, "cubic")};
        check_order(plan);
        check_runs(plan, n_hosts);
    } catch (const std::invalid_argument &) {
        // Refused in words: what a wrong plan deserves.
    }
    return 0;
}
