// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/io_context.hpp>

#include "hosts.hpp"
#include "telemetry.hpp"
#include "timetable.hpp"

namespace dcgym {

/// What everything that sends or receives shares.
struct World {
    asio::io_context &io;
    Hosts &hosts;
    Telemetry &telemetry;
    Timetable &timetable;
};

} // namespace dcgym
