// SPDX-License-Identifier: MIT
#include "engine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "clock.hpp"
#include "tcp_flow.hpp"
#include "udp_flow.hpp"

namespace dcgym {
namespace {

constexpr std::int64_t kTickNs = 4'000'000;
/* Bounds the cost of one tick: with more flows, each is sampled every few ticks. */
constexpr std::size_t kSamplesPerTick = 256;
/* A flow that failed is not repeated at once, or it would spin. */
constexpr std::int64_t kRetryNs = 100'000'000;

} // namespace

Engine::Engine(World &world)
    : world_{world}, listeners_{world}, tick_{world.io}, next_tick_ns_{now_ns()} {
    schedule_tick();
}

void Engine::clear_plan() {
    stop();
    flows_.clear();
}

void Engine::add_flow(const FlowSpec &spec) {
    open_listener(spec);
    flows_.push_back(std::make_unique<Flow>(world_, spec));
}

void Engine::open_listener(const FlowSpec &spec) {
    if (!spec.udp)
        listeners_.open(spec.dst, spec.port, spec.congestion_control);
}

void Engine::start(std::int64_t start_ns) {
    stop();
    start_ns_ = start_ns;
    flows_exhausted_ = runs_finished_ = 0;
    world_.telemetry.begin_records();
    for (auto &flow : flows_) {
        open_listener(flow->spec);
        flow->repetitions_done = 0;
        flow->exhausted = false;
        schedule(*flow, start_ns + flow->spec.start_ns);
    }
    publish();
}

std::size_t Engine::stop() {
    start_ns_ = 0;
    for (auto &flow : flows_)
        flow->timer.cancel();
    const auto runs = std::exchange(runs_, {});
    for (const auto &run : runs)
        run->end(DCGYM_GENERATOR_CUT);
    listeners_.close();
    publish();
    return runs.size();
}

void Engine::schedule(Flow &flow, std::int64_t time_ns) {
    flow.planned_start_ns = time_ns;
    flow.timer.expires_at(time_point(time_ns));
    // A handler already queued when the plan was stopped still runs without an error, after the
    // flow may be gone: the origin of the plan tells whether it is still the same plan.
    flow.timer.async_wait([this, &flow, plan_ns = start_ns_](const asio::error_code &error) {
        if (!error && start_ns_ != 0 && plan_ns == start_ns_)
            launch(flow);
    });
}

void Engine::launch(Flow &flow) {
    const auto done = [this, &flow](Run &run, dcgym_generator_outcome outcome) {
        ended(flow, run, outcome);
    };
    std::shared_ptr<Run> run;
    if (flow.spec.udp) {
        run = std::make_shared<UdpRun>(world_, flow.spec, flow.repetitions_done,
                                       flow.planned_start_ns, done);
    } else {
        run = std::make_shared<TcpRun>(world_, listeners_, flow.spec, flow.repetitions_done,
                                       flow.planned_start_ns, done);
    }
    runs_.push_back(run);
    try {
        run->begin();
    } catch (const std::exception &) {
        run->end(DCGYM_GENERATOR_FAILED);
    }
}

void Engine::ended(Flow &flow, Run &run, dcgym_generator_outcome outcome) {
    if (outcome == DCGYM_GENERATOR_CUT)
        return;
    forget(run);
    ++runs_finished_;
    ++flow.repetitions_done;
    if (flow.spec.repetitions != 0 && flow.repetitions_done >= flow.spec.repetitions) {
        flow.exhausted = true;
        ++flows_exhausted_;
        return;
    }
    const bool failed = outcome == DCGYM_GENERATOR_FAILED;
    schedule(flow, run.end_ns() + std::max(flow.spec.gap_ns, failed ? kRetryNs : 0));
}

void Engine::forget(const Run &run) {
    const auto found = std::find_if(runs_.begin(), runs_.end(),
                                    [&run](const auto &other) { return other.get() == &run; });
    if (found == runs_.end())
        return;
    std::iter_swap(found, runs_.end() - 1);
    runs_.pop_back();
}

void Engine::sample_some() {
    // A run may end while it is sampled, hence the copy of the pointer and the index check.
    const std::size_t count = std::min(runs_.size(), kSamplesPerTick);
    for (std::size_t i = 0; i < count && !runs_.empty(); ++i) {
        next_sample_ = (next_sample_ + 1) % runs_.size();
        const std::shared_ptr<Run> run = runs_[next_sample_];
        run->sample();
    }
}

void Engine::set_host_gauges() {
    std::vector<std::uint64_t> measured(world_.hosts.size(), 0);
    for (auto &host : world_.telemetry.hosts()) {
        host.srtt_ns = host.min_rtt_ns = host.active_flows = 0;
    }
    for (const auto &run : runs_) {
        auto &host = world_.telemetry.host(run->spec().src);
        host.active_flows += 1;
        if (run->srtt_ns() == 0)
            continue;
        measured[run->spec().src] += 1;
        host.srtt_ns += run->srtt_ns();
        host.min_rtt_ns =
            host.min_rtt_ns == 0 ? run->min_rtt_ns() : std::min(host.min_rtt_ns, run->min_rtt_ns());
    }
    for (std::size_t i = 0; i < measured.size(); ++i) {
        if (measured[i] > 0)
            world_.telemetry.host(i).srtt_ns /= measured[i];
    }
}

void Engine::publish() {
    if (world_.hosts.size() == 0)
        return;
    set_host_gauges();
    Progress progress;
    progress.start_ns = static_cast<std::uint64_t>(start_ns_);
    progress.flows_planned = flows_.size();
    progress.flows_active = runs_.size();
    progress.flows_finished = runs_finished_;
    progress.finished = !flows_.empty() && flows_exhausted_ == flows_.size();
    world_.telemetry.publish(progress);
}

void Engine::schedule_tick() {
    next_tick_ns_ = std::max(next_tick_ns_ + kTickNs, now_ns());
    tick_.expires_at(time_point(next_tick_ns_));
    tick_.async_wait([this](const asio::error_code &error) {
        if (error)
            return;
        sample_some();
        publish();
        schedule_tick();
    });
}

} // namespace dcgym
