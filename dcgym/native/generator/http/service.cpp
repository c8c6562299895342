// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <algorithm>

#include "core/clock.hpp"

namespace dcgym {

TimedService::TimedService(World &world, const StationConfig &config, OnEnd on_end)
    : Entry{world.timetable}, world_{world}, station_{config}, on_end_{std::move(on_end)} {}

std::int64_t TimedService::catch_up() {
    const std::int64_t now = now_ns();
    station_.advance(now);
    return now;
}

void TimedService::wait(std::int64_t now) {
    const std::int64_t next_ns = station_.has_ended() ? now : station_.next_ns();
    if (next_ns == ServiceStation::kNever)
        return world_.timetable.cancel(*this);
    world_.timetable.set(*this, next_ns);
}

void TimedService::serve(std::uint64_t ticket, std::span<const ServiceStage> stages) {
    const std::int64_t now = catch_up();
    station_.arrive(now, ticket, stages);
    wait(now);
}

void TimedService::set_speed(double factor) {
    const std::int64_t now = catch_up();
    station_.set_speed(now, factor);
    wait(now);
}

void TimedService::set_colocated(double processes) {
    const std::int64_t now = catch_up();
    station_.set_colocated(now, processes);
    wait(now);
}

void TimedService::due() {
    const std::int64_t now = catch_up();
    const auto ended = station_.take_ended();
    wait(now);
    for (const ServiceStation::Ended &one : ended)
        on_end_(one);
}

Service::Load TimedService::load() const {
    return {station_.waiting(), station_.on_first(), station_.on_later()};
}

} // namespace dcgym
