// SPDX-License-Identifier: Apache-2.0
// Rules that need messages, response times or reports, and what servers and balancers say to each
// other for them.
#include <algorithm>
#include <cmath>

#include "simulation.hpp"

namespace dcgym::twin::balancing {
namespace {

// Of the flows that a gray failure slows: our choice.
constexpr int64_t gray_factor = 10;

} // namespace

uint16_t Simulation::informed(Frontend &frontend, const Flow &flow) {
    const uint16_t found = frontend.choose(flow.hash, now_ns_);
    if (frontend.rule() == DCGYM_RULE_PREQUAL)
        send_probes(flow.frontend);
    return found;
}

// On its way for one latency and what the scenario adds; lost on it, perhaps.
void Simulation::post(Message message) {
    const Range &latency = config_->latency_ns, &more = config_->message_delay_ns;
    if (messaging_.uniform() < config_->message_loss) {
        counts_.lost++;
        return;
    }
    message.at_ns = now_ns_ + messaging_.between(latency.low, latency.high) +
                    messaging_.between(more.low, more.high);
    schedule(message);
}

void Simulation::schedule(const Message &message) {
    messages_.push(message);
    queue_.schedule(message_owner_, messages_.next_ns());
}

void Simulation::deliver() {
    const Message message = messages_.pop();
    if (!messages_.empty())
        queue_.schedule(message_owner_, messages_.next_ns());
    switch (message.kind) {
    case MessageKind::probe:
        return probe_at_server(message);
    case MessageKind::answer:
        return answer_at_balancer(message);
    case MessageKind::idle:
        if (frontends_[message.frontend].up)
            frontends_[message.frontend].note_idle(message.server);
        else
            counts_.unanswered++;
        return;
    case MessageKind::flap:
        return flap(message);
    case MessageKind::move:
        return move(message);
    }
}

// To different servers drawn evenly; of a fraction of a probe the chance decides.
void Simulation::send_probes(uint16_t number) {
    Frontend &frontend = frontends_[number];
    const PrequalConfig &config = config_->prequal;
    std::vector<uint16_t> left = frontend.pool();
    const double whole = std::floor(config.probes);
    size_t count = static_cast<size_t>(whole) + (messaging_.uniform() < config.probes - whole);
    count = std::min(count, left.size());
    for (size_t i = 0; i < count; i++) {
        const auto last = static_cast<int64_t>(left.size() - i - 1);
        std::swap(left[static_cast<size_t>(messaging_.between(0, last))],
                  left[static_cast<size_t>(last)]);
        const uint16_t server = left[static_cast<size_t>(last)];
        Message probe{};
        probe.kind = MessageKind::probe;
        probe.frontend = number;
        probe.server = server;
        probe.epoch = servers_[server].epoch;
        probe.serial = frontend.prequal.ask(now_ns_, config.timeout_ns);
        probe.sent_ns = now_ns_;
        counts_.probes++;
        post(probe);
    }
}

void Simulation::probe_at_server(const Message &probe) {
    Server &server = servers_[probe.server];
    if (!server.up || server.epoch != probe.epoch) {
        counts_.unanswered++;
        return;
    }
    Message answer = probe;
    answer.kind = MessageKind::answer;
    answer.in_flight = server.told(server.queue);
    answer.latency_ns = server.latencies.answer(server.queue);
    post(answer);
    if (config_->message_copies > 0 && messaging_.uniform() < config_->message_copies)
        post(answer);
}

void Simulation::answer_at_balancer(const Message &answer) {
    Frontend &frontend = frontends_[answer.frontend];
    if (!frontend.up) {
        counts_.unanswered++;
        return;
    }
    const dcgym_answer found{0,
                             static_cast<uint64_t>(now_ns_),
                             static_cast<uint64_t>(answer.latency_ns),
                             std::min(answer.in_flight, DCGYM_PREQUAL_MOST_IN_FLIGHT),
                             answer.server,
                             0};
    switch (frontend.prequal.answer(config_->prequal, answer.serial, answer.sent_ns, found,
                                    std::max<size_t>(frontend.pool().size(), 1),
                                    frontend.random())) {
    case Prequal::Verdict::taken:
        counts_.answers++;
        return;
    case Prequal::Verdict::late:
        counts_.late++;
        return;
    case Prequal::Verdict::repeated:
        counts_.repeated++;
        return;
    }
}

// A server that has nothing left to do registers with one of the front ends that want to know.
void Simulation::register_idle(uint16_t number) {
    const Server &server = servers_[number];
    if (server.queue + server.handshaking > 0)
        return;
    listeners_.clear();
    for (uint16_t i = 0; i < frontends_.size(); i++)
        if (frontends_[i].rule() == DCGYM_RULE_JIQ && config_->members[config_->vip_of(i)][number])
            listeners_.push_back(i);
    if (listeners_.empty())
        return;
    Message message{};
    message.kind = MessageKind::idle;
    message.server = number;
    message.frontend = listeners_[static_cast<size_t>(
        messaging_.between(0, static_cast<int64_t>(listeners_.size()) - 1))];
    counts_.idle++;
    post(message);
}

// Whether a server that fails fast turns the request away; else a gray failure may slow it.
bool Simulation::fails_fast(Flow &flow) {
    Server &server = servers_[flow.server];
    if (server.fail_share > 0 && flow.random.uniform() < server.fail_share)
        return true;
    if (server.gray_share > 0 && flow.random.uniform() < server.gray_share) {
        count_demand(flow, -1);
        for (int64_t &demand_ns : flow.demand_ns)
            demand_ns *= gray_factor;
        count_demand(flow, 1);
    }
    return false;
}

// Half of a period away with all its flows, the other half there.
void Simulation::begin_flapping(uint32_t target, double period_s) {
    Server &server = servers_[target];
    server.flap_epoch++;
    if (period_s <= 0) {
        server.up = server.eligible = true;
        return settle(target);
    }
    remove_server(target);
    Message next{};
    next.kind = MessageKind::flap;
    next.server = static_cast<uint16_t>(target);
    next.epoch = server.flap_epoch;
    next.latency_ns = static_cast<int64_t>(period_s * 0.5e9);
    next.at_ns = now_ns_ + next.latency_ns;
    schedule(next);
}

void Simulation::flap(Message next) {
    Server &server = servers_[next.server];
    if (server.flap_epoch != next.epoch)
        return;
    if (server.up) {
        remove_server(next.server);
    } else {
        server.up = server.eligible = true;
        settle(next.server);
    }
    refresh_pools();
    next.at_ns = now_ns_ + next.latency_ns;
    schedule(next);
}

// Each load has draws of its own, so that its way depends on the seed and on nothing else. The
// emulation draws the same (dcgym.tasks.balancing.moving).
void Simulation::begin_moving(const ScheduledChange &change) {
    MovingLoad load{&change, stream_seed(seed_, FlowSource::moving_stream, moving_.size()), 0};
    load.at = dcgym_below(&load.random, static_cast<uint32_t>(change.targets.size()));
    visit(load, change.value);
    Message next{};
    next.kind = MessageKind::move;
    next.server = static_cast<uint16_t>(moving_.size());
    next.latency_ns = change.period_ns;
    next.at_ns = now_ns_ + change.period_ns;
    moving_.push_back(load);
    schedule(next);
}

// To another server than now: of n - 1, those from the present one on count one further.
void Simulation::move(Message next) {
    MovingLoad &load = moving_[next.server];
    const auto n = static_cast<uint32_t>(load.change->targets.size());
    visit(load, -load.change->value);
    if (n > 1) {
        const uint32_t found = dcgym_below(&load.random, n - 1);
        load.at = found + (found >= load.at);
    }
    visit(load, load.change->value);
    next.at_ns = now_ns_ + next.latency_ns;
    schedule(next);
}

void Simulation::visit(const MovingLoad &load, double processes) {
    const uint32_t target = load.change->targets[load.at];
    servers_[target].visiting += processes;
    settle(target);
}

} // namespace dcgym::twin::balancing
