// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/clock.hpp"
#include "tcp_flow.hpp"
#include "udp_flow.hpp"

namespace dcgym {
namespace {

constexpr std::int64_t kTickNs = 4'000'000;
/* An eighth of a tick: with more flows, each is sampled every few ticks. What reads the counters of
   many must not take the time in which their packets should move, or a backlog of flows feeds on
   itself (a sample costs 2 to 6 us). */
constexpr std::int64_t kSamplingNs = kTickNs / 8;
constexpr std::size_t kSamplesAtOnce = 16; // between two looks at the clock
/* A flow that failed is not repeated at once, or it would spin. */
constexpr std::int64_t kRetryNs = 100'000'000;
/* Then what became due meanwhile has its turn. */
constexpr std::size_t kStartsAtOnce = 16;
constexpr std::int64_t kLateNs = 2'000'000;

} // namespace

Engine::Engine(World &world)
    : world_{world}, listeners_{world}, starts_{world.timetable, [this] { start_due(); }},
      tick_{world.timetable, [this] { tick(); }}, next_tick_ns_{now_ns()} {
    tick();
}

void Engine::load(Plan plan) {
    stop();
    plan_ = std::move(plan);
    // What cannot be opened is refused here, not when the plan is started.
    try {
        open_listeners();
    } catch (...) {
        load({});
        throw;
    }
}

void Engine::open_listeners() {
    for (std::size_t id = 0; id < plan_.size(); ++id) {
        const dcgym_generator_flow &flow = plan_.flow(id);
        if (flow.transport == DCGYM_GENERATOR_TCP)
            listeners_.open(flow.dst, static_cast<std::uint16_t>(flow.port),
                            plan_.congestion_control(id));
    }
}

void Engine::start(std::int64_t start_ns) {
    if (start_ns_ != 0)
        stop();
    // Open already after load(), closed after stop().
    open_listeners();
    start_ns_ = start_ns;
    next_start_ = 0;
    flows_exhausted_ = runs_finished_ = starts_count_ = late_starts_ = 0;
    world_.telemetry.begin_records();
    if (!plan_.by_start().empty())
        world_.timetable.set(starts_, start_ns_ + plan_.flow(plan_.by_start()[0]).start_ns);
    publish();
}

std::size_t Engine::stop() {
    start_ns_ = 0;
    world_.timetable.cancel(starts_);
    waiting_.clear();
    const auto runs = std::exchange(runs_, {});
    for (const auto &run : runs)
        run->end(DCGYM_GENERATOR_CUT);
    closer_.finish();
    listeners_.close();
    for (const auto &probe : probes_)
        probe->restart();
    // Twice: the first shows the cut flows, the second that none is left.
    world_.telemetry.end_round();
    world_.telemetry.end_round();
    publish();
    return runs.size();
}

void Engine::set_probes(const std::vector<std::pair<std::size_t, std::size_t>> &pairs,
                        std::int64_t period_ns) {
    probes_.clear();
    for (const auto &[src, dst] : pairs)
        probes_.push_back(std::make_unique<Probe>(world_, probes_.size(), src, dst, period_ns));
}

void Engine::start_due() {
    const auto &order = plan_.by_start();
    for (std::size_t count = 0; next_start_ < order.size(); ++next_start_, ++count) {
        const std::size_t id = order[next_start_];
        const std::int64_t planned_ns = start_ns_ + plan_.flow(id).start_ns;
        if (planned_ns > now_ns())
            return world_.timetable.set(starts_, planned_ns);
        if (count == kStartsAtOnce)
            return world_.timetable.set(starts_, now_ns());
        launch(id, 0, planned_ns);
    }
}

void Engine::launch(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns) {
    const std::shared_ptr<Run> run = make_run(plan_.run(id, repetition, planned_start_ns));
    count_start(*run);
    run->place = runs_.size();
    runs_.push_back(run);
    world_.telemetry.host(run->spec().src).active_flows += 1;
    try {
        run->begin();
    } catch (const std::exception &) {
        run->end(DCGYM_GENERATOR_REFUSED);
    }
}

std::shared_ptr<Run> Engine::make_run(RunSpec spec) {
    const auto done = [this](Run &run, dcgym_generator_outcome outcome) { ended(run, outcome); };
    if (spec.udp)
        return std::make_shared<UdpRun>(world_, pacing_, std::move(spec), done);
    return std::make_shared<TcpRun>(world_, listeners_, closer_, std::move(spec), done);
}

void Engine::count_start(const Run &run) {
    ++starts_count_;
    late_starts_ += run.start_ns() - run.spec().planned_start_ns > kLateNs ? 1 : 0;
}

void Engine::ended(Run &run, dcgym_generator_outcome outcome) {
    world_.telemetry.host(run.spec().src).active_flows -= 1;
    if (outcome == DCGYM_GENERATOR_CUT)
        return;
    forget(run);
    ++runs_finished_;
    go_on(run, outcome);
}

void Engine::forget(const Run &run) {
    const std::size_t place = run.place;
    std::swap(runs_[place], runs_.back());
    runs_[place]->place = place;
    runs_.pop_back();
}

void Engine::go_on(const Run &run, dcgym_generator_outcome outcome) {
    const std::size_t id = run.spec().flow_id;
    const std::uint64_t done = run.spec().repetition + 1;
    const auto repetitions = static_cast<std::uint64_t>(plan_.flow(id).repetitions);
    const std::int64_t pause_ns = outcome == DCGYM_GENERATOR_FINISHED ? 0 : kRetryNs;
    if (repetitions == 0 || done < repetitions)
        return launch_at(id, done, run.end_ns() + std::max(plan_.flow(id).gap_ns, pause_ns));
    ++flows_exhausted_;
    for (const std::uint32_t next : plan_.successors(id))
        launch_at(next, 0, run.end_ns() + std::max(plan_.flow(next).start_ns, pause_ns));
}

void Engine::launch_at(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns) {
    auto &alarm = waiting_[id];
    alarm = std::make_unique<Alarm>(world_.timetable, [this, id, repetition, planned_start_ns] {
        waiting_.erase(id);
        launch(id, repetition, planned_start_ns);
    });
    world_.timetable.set(*alarm, planned_start_ns);
}

void Engine::tick() {
    sample_some();
    for (const auto &probe : probes_)
        probe->sample();
    publish();
    const std::int64_t now = now_ns(), due_ns = world_.telemetry.sample_due_ns();
    next_tick_ns_ = std::max(next_tick_ns_ + kTickNs, now);
    if (due_ns > now && due_ns < next_tick_ns_)
        next_tick_ns_ = due_ns;
    world_.timetable.set(tick_, next_tick_ns_);
}

void Engine::sample_some() {
    const std::int64_t until_ns = now_ns() + kSamplingNs;
    for (std::size_t i = 0; i < runs_.size(); ++i, ++next_sample_) {
        if (i % kSamplesAtOnce == kSamplesAtOnce - 1 && now_ns() > until_ns)
            return;
        if (next_sample_ >= runs_.size()) {
            next_sample_ = 0;
            world_.telemetry.end_round();
        }
        runs_[next_sample_]->sample();
    }
    if (runs_.empty())
        world_.telemetry.end_round();
}

void Engine::publish() {
    if (world_.hosts.size() == 0)
        return;
    Progress progress;
    progress.start_ns = static_cast<std::uint64_t>(start_ns_);
    progress.flows_planned = plan_.size();
    progress.flows_active = runs_.size();
    progress.flows_finished = runs_finished_;
    progress.starts = starts_count_;
    progress.late_starts = late_starts_;
    progress.udp_period_ns = static_cast<std::uint64_t>(pacing_.period_ns());
    progress.finished = plan_.size() > 0 && flows_exhausted_ == plan_.size();
    world_.telemetry.publish(progress);
}

} // namespace dcgym
