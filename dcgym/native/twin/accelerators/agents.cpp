// SPDX-License-Identifier: Apache-2.0
// What agents measure and say, and when the balancer hears it.
#include "simulation.hpp"

namespace dcgym::twin::accelerators {
namespace {

// Periodic agents of this many groups of servers report in turn, evenly over a period: all at once
// would be a coincidence, and one event for each agent is slow.
constexpr size_t most_groups = 16;
constexpr uint32_t most_queue = 0xffff;

// Whole per cent of a time, decimals dropped. Below the limit both numbers are exact as doubles. A
// quotient that is not whole is then at least 2^-46 below the next whole number, and the rounding
// of one up to 128 is at most 2^-47.
uint8_t per_cent(int64_t used_ns, int64_t whole_ns) {
    constexpr int64_t exact_ns = int64_t{1} << 46;
    if (whole_ns <= 0)
        return 0;
    const int64_t hundredfold = used_ns * DCGYM_FULL_LOAD;
    if (whole_ns >= exact_ns)
        return static_cast<uint8_t>(hundredfold / whole_ns);
    return static_cast<uint8_t>(static_cast<double>(hundredfold) / static_cast<double>(whole_ns));
}

} // namespace

// Reports of periodic agents are most of the events, and the next one overwrites nearly all of them
// before anybody has looked. Where all of them come, each before the next is sent, they are
// therefore made only when somebody looks, out of what the devices did meanwhile. What is known is
// then what it would be with each report at its own time.
void Simulation::start_agents() {
    const AgentConfig &config = config_->agents;
    const bool is_periodic = config.kind == Agents::periodic;
    is_lazy_ = is_periodic && config.loss <= 0 && config.delay_ns < config.period_ns;
    for (const ScheduledChange &one : config_->changes)
        is_lazy_ &= one.change == Change::rate || one.change == Change::device_speed;
    agents_.assign(is_periodic && !is_lazy_ ? servers_ * devices : 0, {});
    history_.assign(is_lazy_ ? servers_ * devices : 0, {});
    rounds_.assign(std::min(servers_, most_groups), {});
    delivered_ns_ = -1;
    next_tick_ns_ = tick_ns();
    size_t samples = 0;
    for (size_t i = 0; i < servers_ * devices; i++) {
        if (is_lazy_)
            history_[i].push_back({});
        rounds_[i / devices % rounds_.size()].reports += is_present(i);
        if (!agents_.empty() && has_device(i)) {
            agents_[i] = {samples, 0, config_->servers[i / devices].devices[i % devices].workers};
            samples += config.window;
        }
    }
    samples_.assign(samples, {0, 0});
}

bool Simulation::has_device(size_t number) const {
    return !config_->servers[number / devices].devices[number % devices].service_ns.empty();
}

int64_t Simulation::tick_ns() const {
    const auto groups = static_cast<int64_t>(rounds_.size());
    const auto next = static_cast<int64_t>(ticks_) + 1;
    const int64_t period_ns = config_->agents.period_ns;
    // Whole rounds apart, so that no product overflows.
    return next / groups * period_ns + next % groups * period_ns / groups;
}

void Simulation::tick() {
    const size_t groups = rounds_.size(), group = ticks_ % groups;
    if (is_lazy_) {
        interval_.reports += rounds_[group].reports;
        batches_.push_back({now_ns_ + config_->agents.delay_ns, 0});
    }
    for (size_t server = group; !is_lazy_ && server < servers_; server += groups)
        for (size_t d = 0; d < devices; d++) {
            const auto number = static_cast<uint32_t>(server * devices + d);
            if (is_present(number) && devices_[number].is_up)
                send(number, sample(number), devices_[number].is_busy);
        }
    rounds_[group].passed++;
    ticks_++;
    next_tick_ns_ = tick_ns();
}

// Takes the place of the oldest sample; returns the utilisation since that.
uint8_t Simulation::sample(uint32_t number) {
    Agent &agent = agents_[number];
    Sample &oldest = samples_[agent.first + agent.next];
    const Sample from = oldest;
    oldest = {now_ns_, devices_[number].busy_until(now_ns_)};
    agent.next = agent.next + 1 == config_->agents.window ? 0 : agent.next + 1;
    return per_cent(oldest.busy_ns - from.busy_ns, (now_ns_ - from.time_ns) * agent.workers);
}

// What a device has come to, for as long as a window may reach back to it.
void Simulation::remember(uint32_t number, bool by_arrival) {
    const AgentConfig &config = config_->agents;
    const Device &device = devices_[number];
    Fifo<Moment> &moments = history_[number];
    const Moment moment{2 * now_ns_ + by_arrival, device.busy_until(now_ns_), device.in_service,
                        device.queue()};
    if (moments.back().order == moment.order)
        moments.back() = moment;
    else
        moments.push_back(moment);
    const int64_t oldest_ns = now_ns_ - (config.window + 1) * config.period_ns - config.delay_ns;
    while (moments.size() > 1 && moments[1].order <= 2 * oldest_ns)
        moments.pop_front();
}

// Makes the last report that has arrived.
void Simulation::look(uint32_t number) {
    const AgentConfig &config = config_->agents;
    const auto groups = static_cast<int64_t>(rounds_.size());
    const auto group = static_cast<int64_t>(number / devices % rounds_.size());
    const int64_t first_ns = (group + 1) * config.period_ns / groups;
    auto round = static_cast<int64_t>(rounds_[static_cast<size_t>(group)].passed) - 1;
    // The tick before the last one was a period ago, and its report has arrived.
    if (round >= 0 && round * config.period_ns + first_ns + config.delay_ns > delivered_ns_)
        round--;
    dcgym_device &known = known_[number];
    if (round < 0 || known.reports == static_cast<uint64_t>(round) + 1)
        return;
    const int64_t time_ns = round * config.period_ns + first_ns;
    const Fifo<Moment> &moments = history_[number];
    size_t last = moments.size() - 1, first = 0;
    while (moments[last].order > 2 * time_ns)
        last--;
    // Before a whole window has passed it begins at time 0.
    const int64_t span_ns = config.window * config.period_ns;
    const int64_t from_ns = round >= config.window ? time_ns - span_ns : 0;
    while (first < last && moments[first + 1].order <= 2 * from_ns)
        first++;
    const int64_t busy_ns = moments[last].busy_until(time_ns) - moments[first].busy_until(from_ns);
    const uint32_t workers = devices_[number].config->workers;
    known.time_ns = static_cast<uint64_t>(time_ns + config.delay_ns);
    known.reports = static_cast<uint32_t>(round + 1);
    known.queue = static_cast<uint16_t>(std::min(moments[last].queue, most_queue));
    known.load = per_cent(busy_ns, (time_ns - from_ns) * workers);
}

void Simulation::send(uint32_t number, uint8_t load, bool is_busy) {
    const Device &device = devices_[number];
    if (device.is_silent)
        return;
    interval_.reports++;
    if (config_->agents.loss > 0 && losses_.uniform() < config_->agents.loss) {
        interval_.reports_lost++;
        return;
    }
    // All reports take the same time, so that they stay in order.
    const int64_t due_ns = now_ns_ + config_->agents.delay_ns;
    if (batches_.empty() || batches_.back().due_ns != due_ns)
        batches_.push_back({due_ns, 0});
    batches_.back().reports++;
    reports_.push_back(
        {number, static_cast<uint16_t>(std::min(device.queue(), most_queue)), load, is_busy});
}

void Simulation::deliver() {
    while (!batches_.empty() && batches_.front().due_ns <= now_ns_) {
        const size_t n = batches_.front().reports;
        for (size_t i = 0; i < n; i++) {
            const Report &report = reports_[i];
            dcgym_device &known = known_[report.device];
            known.time_ns = static_cast<uint64_t>(now_ns_);
            known.reports++;
            known.load = report.load;
            known.queue = report.queue;
            known.is_busy = report.is_busy;
        }
        reports_.pop_front(n);
        batches_.pop_front();
    }
    delivered_ns_ = now_ns_;
}

// P4Mite's agent sees a request's packets come and go. It says that the device is busy once a
// processing time is over the threshold, and the contrary once one is well below, or nothing is
// left to do: without the latter a device that gets no request would be busy for ever.
void Simulation::watch(uint32_t number, const Request &request) {
    const AgentConfig &agents = config_->agents;
    Device &device = devices_[number];
    const auto took_ns = static_cast<double>(now_ns_ - request.arrival_ns);
    const auto threshold_ns = static_cast<double>(agents.threshold_ns[request.application]);
    const bool is_over = took_ns > threshold_ns;
    const bool is_under = took_ns < threshold_ns * agents.release;
    const bool is_idle = device.queue() == 0;
    if (agents.second_report_ns > 0) {
        if (!is_over || device.is_busy)
            return;
        device.is_busy = true;
        send(number, 0, true);
        seconds_.push_back({now_ns_ + agents.second_report_ns, number});
    } else if (device.is_busy ? is_under || is_idle : is_over && !is_idle) {
        device.is_busy = !device.is_busy;
        send(number, 0, device.is_busy);
    }
}

void Simulation::end_busy() {
    const uint32_t number = seconds_.front().device;
    seconds_.pop_front();
    devices_[number].is_busy = false;
    send(number, 0, false);
}

} // namespace dcgym::twin::accelerators
