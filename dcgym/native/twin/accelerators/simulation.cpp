// SPDX-License-Identifier: Apache-2.0
// The clock, the requests' way and the scheduled changes; agents are in agents.cpp.
#include "simulation.hpp"

#include <algorithm>

#include "device_ring.h"
#include "fixed_weights.h"

namespace dcgym::twin::accelerators {
namespace {

constexpr int64_t never = RequestSource::never;
constexpr size_t most_requests = 1 << 24;

} // namespace

Simulation::Simulation(std::shared_ptr<const Config> config)
    : config_(std::move(config)), servers_(config_->servers.size()) {
    dcgym_fill_by_bits(by_bits_.data());
}

void Simulation::reset(uint64_t seed, double rate_per_s) {
    now_ns_ = 0;
    ticks_ = 0;
    next_change_ = 0;
    departures_.clear();
    cells_.reset(config_->connection_table);
    reports_.clear();
    batches_.clear();
    seconds_.clear();
    records_.clear();
    interval_ = {};
    devices_.assign(servers_ * devices, {});
    known_.assign(servers_ * devices, {});
    weights_.assign(servers_ * devices, 0);
    slots_.assign(servers_ * devices, 0);
    present_.assign(servers_, 0);
    turns_.assign(servers_, {});
    for (size_t i = 0; i < devices_.size(); i++) {
        const DeviceConfig &config = config_->servers[i / devices].devices[i % devices];
        devices_[i].config = &config;
        present_[i / devices] |= static_cast<uint8_t>(config.present << i % devices);
        weights_[i] = config.weight;
    }
    ongoing_.assign(servers_, 0);
    server_turns_.assign(servers_, {});
    clock_ = 0;
    turn_ = 0;
    source_ = RequestSource(*config_, seed, rate_per_s);
    losses_ = Splitmix(stream_seed(seed, RequestSource::loss_stream, 0));
    random_ = stream_seed(seed, RequestSource::balancer_stream, 0);
    build_pool();
    build_rings();
    start_agents();
    plan_others();
}

void Simulation::set_rules(int server_rule, int device_rule) {
    if (server_rule >= 0)
        server_rule_ = static_cast<uint32_t>(server_rule);
    if (device_rule >= 0)
        device_rule_ = static_cast<uint32_t>(device_rule);
}

void Simulation::set_weights(const double *weights) {
    if (std::equal(weights_.begin(), weights_.end(), weights))
        return;
    std::copy_n(weights, weights_.size(), weights_.begin());
    build_rings();
}

// A server is in the pool while it has a device.
void Simulation::build_pool() {
    std::vector<double> ratio;
    pool_.clear();
    for (size_t server = 0; server < servers_; server++) {
        if (present_[server] != 0) {
            pool_.push_back(static_cast<uint16_t>(server));
            ratio.push_back(config_->servers[server].weight);
        }
    }
    pool_n_ = static_cast<uint32_t>(pool_.size());
    const size_t readable = (pool_.size() / DCGYM_RULE_STRIDE + 1) * DCGYM_RULE_STRIDE;
    pool_.resize(readable);
    pool_weight_.assign(readable, 1);
    pool_alias_.assign(readable, {});
    if (pool_n_ == 0)
        return;
    dcgym_fixed_weights(ratio.data(), pool_n_, pool_weight_.data());
    dcgym_alias_build(pool_weight_.data(), pool_n_, pool_alias_.data());
}

// Servers of the same weights share a ring, each with a pointer of its own.
void Simulation::build_rings() {
    std::map<std::array<uint32_t, devices>, uint32_t> known;
    rings_.clear();
    ring_of_.resize(servers_);
    for (size_t server = 0; server < servers_; server++) {
        std::array<double, devices> weight{};
        std::array<uint32_t, devices> slots{};
        for (size_t d = 0; d < devices; d++)
            if (is_present(server * devices + d))
                weight[d] = weights_[server * devices + d];
        const uint32_t total = dcgym_ring_slots(weight.data(), config_->ring_slots, slots.data());
        std::copy(slots.begin(), slots.end(),
                  slots_.begin() + static_cast<ptrdiff_t>(server * devices));
        const auto [found, is_new] = known.emplace(slots, static_cast<uint32_t>(rings_.size()));
        if (is_new) {
            rings_.emplace_back();
            rings_.back().slots = total;
            dcgym_ring_fill(slots.data(), total, rings_.back().slot.data());
        }
        ring_of_[server] = found->second;
    }
}

void Simulation::advance(int64_t until_ns, Interrupt &call) {
    Interrupt::Events events(call);
    for (;;) {
        const int64_t departure_ns = departures_.empty() ? never : departures_.first_ns();
        const int64_t at_ns = std::min({departure_ns, source_.next_ns(), next_other_ns_});
        if (at_ns > until_ns)
            break;
        now_ns_ = at_ns;
        // At the same time: ends, changes and agents, then arrivals.
        if (at_ns == departure_ns)
            depart();
        else if (at_ns == next_other_ns_)
            handle_other();
        else
            arrive();
        events.next();
    }
    now_ns_ = std::max(now_ns_, until_ns);
}

// Few of the events are others: they are looked for where one has been handled or sent.
void Simulation::plan_others() {
    next_other_ns_ = config_->agents.kind == Agents::periodic ? next_tick_ns_ : never;
    if (next_change_ < config_->changes.size())
        next_other_ns_ = std::min(next_other_ns_, config_->changes[next_change_].at_ns);
    if (!batches_.empty())
        next_other_ns_ = std::min(next_other_ns_, batches_.front().due_ns);
    if (!seconds_.empty())
        next_other_ns_ = std::min(next_other_ns_, seconds_.front().at_ns);
}

void Simulation::handle_other() {
    if (next_change_ < config_->changes.size() && config_->changes[next_change_].at_ns <= now_ns_)
        change();
    else if (config_->agents.kind == Agents::periodic && next_tick_ns_ <= now_ns_)
        tick();
    else if (!seconds_.empty() && seconds_.front().at_ns <= now_ns_)
        end_busy();
    else
        deliver();
    plan_others();
}

bool Simulation::looks_at_reports() const {
    const bool is_blind = device_rule_ == DCGYM_DEVICE_RULE_SERVER_ONLY ||
                          device_rule_ == DCGYM_DEVICE_RULE_ECMP ||
                          device_rule_ == DCGYM_DEVICE_RULE_WRR;
    return !is_blind || config_->max_age_ns > 0;
}

uint32_t Simulation::choose(uint64_t hash) {
    const auto now_ns = static_cast<uint64_t>(now_ns_);
    const dcgym_pool_view pool{pool_n_, pool_.data(), pool_weight_.data(), pool_alias_.data()};
    dcgym_state_view state{&random_, &turn_, ongoing_.data(), nullptr, server_turns_.data(),
                           &clock_,  nullptr};
    const uint32_t server = dcgym_choose(server_rule_, &pool, &state, hash, now_ns);
    if (server == DCGYM_NO_SERVER)
        return DCGYM_NO_SERVER;
    if (is_lazy_ && looks_at_reports())
        for (uint32_t d = 0; d < devices; d++)
            if (present_[server] >> d & 1)
                look(server * static_cast<uint32_t>(devices) + d);
    const Ring &ring = rings_[ring_of_[server]];
    const dcgym_device_view view{&known_[server * devices],
                                 &slots_[server * devices],
                                 by_bits_.data(),
                                 ring.slot.data(),
                                 ring.slots,
                                 config_->threshold,
                                 present_[server],
                                 static_cast<uint64_t>(config_->max_age_ns),
                                 now_ns};
    const uint32_t device = dcgym_device_choose(device_rule_, &view, &turns_[server], &random_);
    return server * static_cast<uint32_t>(devices) + device;
}

// Where the table of connections sends its first packet, or else the rules.
uint32_t Simulation::place(Request &request, uint64_t hash) {
    if (!cells_.is_on())
        return choose(hash);
    // Of the five-tuple's digest: the twin has no addresses.
    request.connection = crc16({reinterpret_cast<const char *>(&hash), sizeof(hash)});
    const uint32_t known = cells_.find(request.connection);
    if (known != ConnectionCells::nobody) {
        interval_.inherited++;
        return known;
    }
    const uint32_t number = choose(hash);
    if (number != DCGYM_NO_SERVER)
        cells_.keep(request.connection, number);
    return number;
}

// Its last packet, which comes when it is answered or given up.
void Simulation::leave(const Request &request, uint32_t device) {
    interval_.pcc_violations += cells_.find(request.connection) != device;
    cells_.free(request.connection);
}

void Simulation::arrive() {
    uint64_t hash = 0;
    Request request = source_.come(now_ns_, hash);
    interval_.arrivals++;
    const uint32_t number = place(request, hash);
    if (number == DCGYM_NO_SERVER) {
        interval_.lost++;
        return;
    }
    Device &device = devices_[number];
    ongoing_[number / devices]++;
    device.chosen++;
    const int64_t service_ns = device.service_ns(request);
    device.offered_ns += static_cast<double>(service_ns);
    if (!device.is_up)
        return end(request, number, Outcome::lost);
    if (device.waiting.size() >= most_requests || departures_.is_full())
        throw Refusal("over 16 million requests are served or wait at a device");
    if (device.in_service < device.config->workers)
        departures_.push(now_ns_ + service_ns, serve(number, request));
    else if (device.waiting.size() >= device.config->queue_limit)
        return end(request, number, Outcome::dropped);
    else
        device.waiting.push_back(request);
    if (is_lazy_)
        remember(number, true);
}

// The request is in service from now on; the caller puts its end on the list.
InService Simulation::serve(uint32_t number, const Request &request) {
    Device &device = devices_[number];
    device.integrate(now_ns_);
    device.in_service++;
    return {request, number, device.epoch};
}

void Simulation::depart() {
    const InService done = departures_.first();
    Device &device = devices_[done.device];
    if (done.epoch != device.epoch)
        return departures_.pop(); // the device has failed meanwhile
    device.integrate(now_ns_);
    device.in_service--;
    end(done.request, done.device, Outcome::completed);
    if (device.waiting.empty()) {
        departures_.pop();
    } else {
        const Request next = device.waiting.front();
        device.waiting.pop_front();
        departures_.replace_first(now_ns_ + device.service_ns(next), serve(done.device, next));
    }
    if (is_lazy_)
        remember(done.device, false);
    if (config_->agents.kind == Agents::event) {
        watch(done.device, done.request);
        plan_others();
    }
}

void Simulation::end(const Request &request, uint32_t device, Outcome outcome) {
    ongoing_[device / devices]--;
    if (cells_.is_on())
        leave(request, device);
    if (outcome == Outcome::completed) {
        interval_.completed++;
        interval_.latencies_ns.push_back(now_ns_ - request.arrival_ns + 2 * config_->latency_ns);
    } else if (outcome == Outcome::dropped) {
        interval_.dropped++;
        devices_[device].dropped++;
    } else {
        interval_.lost++;
    }
    if (records_.size() < config_->record_limit)
        records_.push_back(record(request, device, outcome));
}

Record Simulation::record(const Request &request, uint32_t device, Outcome outcome) const {
    return {request.arrival_ns,
            now_ns_,
            request.number,
            request.application,
            static_cast<uint16_t>(device / devices),
            static_cast<uint16_t>(device % devices),
            static_cast<uint16_t>(outcome)};
}

std::vector<Record> Simulation::under_way() const {
    std::vector<Record> found;
    departures_.for_each([&](const InService &one) {
        if (one.epoch == devices_[one.device].epoch) // else it was lost with its device
            found.push_back(record(one.request, one.device, Outcome::under_way));
    });
    for (uint32_t device = 0; device < devices_.size(); device++)
        for (size_t i = 0; i < devices_[device].waiting.size(); i++)
            found.push_back(record(devices_[device].waiting[i], device, Outcome::under_way));
    return found;
}

void Simulation::change() {
    const ScheduledChange &change = config_->changes[next_change_++];
    if (change.change == Change::rate)
        return source_.set_rate(change.value, now_ns_);
    for (const uint32_t device : change.targets)
        apply(change, device);
    build_pool();
    build_rings();
}

void Simulation::apply(const ScheduledChange &change, uint32_t number) {
    Device &device = devices_[number];
    switch (change.change) {
    case Change::device_speed: // of what begins from now on
        device.speed = change.value;
        return;
    case Change::device_failure:
        return fail(number);
    case Change::device_recovery:
        device.is_up = true;
        return;
    case Change::add_device:
        present_[number / devices] |= static_cast<uint8_t>(1U << number % devices);
        return;
    case Change::remove_device:
        present_[number / devices] &= static_cast<uint8_t>(~(1U << number % devices));
        return;
    case Change::agent_silence:
    case Change::agent_recovery:
        device.is_silent = change.change == Change::agent_silence;
        return;
    case Change::rate:
        return;
    }
}

// What it has is lost, and what still comes: the balancer is not told.
void Simulation::fail(uint32_t number) {
    Device &device = devices_[number];
    device.integrate(now_ns_);
    departures_.for_each([&](const InService &one) {
        if (one.device == number && one.epoch == device.epoch)
            end(one.request, number, Outcome::lost);
    });
    for (size_t i = 0; i < device.waiting.size(); i++)
        end(device.waiting[i], number, Outcome::lost);
    device.waiting.clear();
    device.in_service = 0;
    device.is_up = false;
    device.epoch++;
}

void Simulation::integrate() {
    for (uint32_t i = 0; is_lazy_ && i < devices_.size(); i++)
        if (is_present(i))
            look(i);
    for (Device &device : devices_)
        device.integrate(now_ns_);
}

void Simulation::begin_interval() {
    for (Device &device : devices_) {
        device.interval_busy_ns = device.busy_ns;
        device.offered_ns = 0;
        device.chosen = device.dropped = 0;
    }
    std::vector<int64_t> memory = std::move(interval_.latencies_ns);
    memory.clear();
    interval_ = {};
    interval_.latencies_ns = std::move(memory);
    interval_.since_ns = now_ns_;
}

double Simulation::share(size_t device) const {
    const uint32_t slots = rings_[ring_of_[device / devices]].slots;
    return slots ? static_cast<double>(slots_[device]) / slots : 0;
}

} // namespace dcgym::twin::accelerators
