// SPDX-License-Identifier: Apache-2.0
// Reads what dcgym.tasks.balancing.arrivals and dcgym.tasks.accelerators.arrivals make of
// workloads.
#pragma once

#include <pybind11/pybind11.h>

#include "flow_source.hpp"
#include "request_source.hpp"

namespace dcgym::twin {

FlowWorkload read_flow_workload(const pybind11::dict &plain);
RequestWorkload read_request_workload(const pybind11::dict &plain);

} // namespace dcgym::twin
