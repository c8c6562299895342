// SPDX-License-Identifier: Apache-2.0
#include "burnt.hpp"

#include <asio/post.hpp>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "core/clock.hpp"

namespace dcgym {
namespace {

constexpr double kTurnNs = 1'000'000;

std::int64_t own_cpu_ns() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

/// Uses this much processor time; returns how much it was.
std::int64_t burn(std::int64_t cpu_ns) {
    const std::int64_t begin_ns = own_cpu_ns();
    std::int64_t used_ns = 0;
    while (used_ns < cpu_ns)
        used_ns = own_cpu_ns() - begin_ns;
    return used_ns;
}

} // namespace

BurntService::BurntService(World &world, const StationConfig &config, OnEnd on_end)
    : world_{world}, config_{config.front().config}, on_end_{std::move(on_end)},
      later_{world, config, [this](const ServiceStation::Ended &stage) { end_later(stage); }} {
    for (std::uint32_t i = 0; i < config_.workers; ++i)
        threads_.emplace_back([this] { work(); });
}

BurntService::~BurntService() {
    {
        const std::lock_guard lock{mutex_};
        stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_)
        thread.join();
}

void BurntService::serve(std::uint64_t ticket, std::span<const ServiceStage> stages) {
    {
        const std::lock_guard lock{mutex_};
        jobs_[ticket] = {{stages.begin(), stages.end()}, 0, 0, 0};
    }
    if (!stages.empty())
        return begin_stage(ticket);
    const std::weak_ptr<bool> alive = alive_;
    asio::post(world_.io, [this, alive, ticket] {
        if (!alive.expired())
            begin_stage(ticket);
    });
}

void BurntService::begin_stage(std::uint64_t ticket) {
    std::unique_lock lock{mutex_};
    Job &job = jobs_.at(ticket);
    if (job.stage == job.stages.size()) {
        lock.unlock();
        return leave(ticket, false);
    }
    const ServiceStage stage = job.stages[job.stage];
    if (stage.resource > 0) {
        lock.unlock();
        return later_.serve(ticket, {&stage, 1});
    }
    job.left_ns = static_cast<double>(stage.demand_ns);
    if (!waiting_.empty() || on_cpu_ >= config_.slots)
        return waiting_.push_back(ticket);
    begin_on_cpu(ticket);
}

void BurntService::end_stage(std::uint64_t ticket) {
    {
        const std::lock_guard lock{mutex_};
        ++jobs_.at(ticket).stage;
    }
    begin_stage(ticket);
}

void BurntService::end_later(const ServiceStation::Ended &stage) {
    if (stage.refused)
        return leave(stage.ticket, true);
    {
        const std::lock_guard lock{mutex_};
        Job &job = jobs_.at(stage.ticket);
        job.served_ns = job.served_ns ? job.served_ns : stage.served_ns;
    }
    end_stage(stage.ticket);
}

void BurntService::leave(std::uint64_t ticket, bool refused) {
    const std::int64_t now = now_ns();
    std::int64_t served_ns = 0;
    {
        const std::lock_guard lock{mutex_};
        served_ns = jobs_.at(ticket).served_ns;
        jobs_.erase(ticket);
    }
    on_end_({ticket, served_ns ? served_ns : now, now, refused});
}

void BurntService::begin_on_cpu(std::uint64_t ticket) {
    ++on_cpu_;
    Job &job = jobs_.at(ticket);
    job.served_ns = job.served_ns ? job.served_ns : now_ns();
    ready_.push_back(ticket);
    changed_.notify_one();
}

void BurntService::work() {
    // The process takes precedence to be on time; its mock computations must not.
    setpriority(PRIO_PROCESS, 0, 0);
    std::unique_lock lock{mutex_};
    for (;;) {
        changed_.wait(lock, [this] { return stopped_ || !ready_.empty(); });
        if (stopped_)
            return;
        take_turn(lock);
    }
}

void BurntService::take_turn(std::unique_lock<std::mutex> &lock) {
    const std::uint64_t ticket = ready_.front();
    ready_.pop_front();
    if (ticket == kColocated && colocated_ > colocated_wanted_) {
        --colocated_;
        return;
    }
    const double speed = config_.speed * factor_;
    const double left_ns = ticket == kColocated ? kTurnNs * speed : jobs_.at(ticket).left_ns;
    const double turn_ns = std::min(kTurnNs, left_ns / speed);
    lock.unlock();
    const std::int64_t used_ns = burn(static_cast<std::int64_t>(std::ceil(turn_ns)));
    lock.lock();
    if (ticket == kColocated)
        return ready_.push_back(ticket);
    Job &job = jobs_.at(ticket);
    job.left_ns -= static_cast<double>(used_ns) * speed;
    if (job.left_ns <= 0)
        leave_cpu(ticket);
    else
        ready_.push_back(ticket);
}

void BurntService::leave_cpu(std::uint64_t ticket) {
    --on_cpu_;
    if (!waiting_.empty()) {
        const std::uint64_t next = waiting_.front();
        waiting_.pop_front();
        begin_on_cpu(next);
    }
    const std::weak_ptr<bool> alive = alive_;
    asio::post(world_.io, [this, alive, ticket] {
        if (!alive.expired())
            end_stage(ticket);
    });
}

void BurntService::set_speed(double factor) {
    const std::lock_guard lock{mutex_};
    factor_ = factor;
}

void BurntService::set_colocated(double processes) {
    const std::lock_guard lock{mutex_};
    colocated_wanted_ = static_cast<std::uint64_t>(std::llround(processes));
    while (colocated_ < colocated_wanted_) {
        ++colocated_;
        ready_.push_back(kColocated);
    }
    changed_.notify_all();
}

Service::Load BurntService::load() const {
    const std::lock_guard lock{mutex_};
    return {static_cast<std::uint32_t>(waiting_.size()), on_cpu_, later_.load().later};
}

} // namespace dcgym
