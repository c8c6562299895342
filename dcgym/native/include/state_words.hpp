// SPDX-License-Identifier: Apache-2.0
// The row of words that tells the state of a network (dcgym.monitors.StateWords).
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace dcgym {

// Where the words of each field begin in a row, by its name in PORT_STATE or HOST_STATE.
using Starts = std::map<std::string, size_t>;

} // namespace dcgym
