// SPDX-License-Identifier: Apache-2.0
// Figures of completion times, by the names of dcgym.tasks.balancing.protocol.CompletionTimes.
#pragma once

#include <pybind11/pybind11.h>

#include "statistics.hpp"

namespace dcgym::twin {

pybind11::dict figures_of(const CompletionTimes &times);

} // namespace dcgym::twin
