// SPDX-License-Identifier: Apache-2.0
// Reads what dcgym.backends.simulation.plain makes of a scenario.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "config.hpp"

namespace dcgym::twin::balancing {

namespace py = pybind11;

std::shared_ptr<const Config> read_config(const py::dict &config, size_t record_limit,
                                          int64_t warm_up_ns);

} // namespace dcgym::twin::balancing
