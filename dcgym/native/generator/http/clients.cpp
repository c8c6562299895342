// SPDX-License-Identifier: Apache-2.0
#include "clients.hpp"

#include <exception>
#include <utility>

#include "core/clock.hpp"

namespace dcgym {
namespace {

/* Then what became due meanwhile has its turn. */
constexpr std::size_t kStartsAtOnce = 16;
constexpr std::int64_t kLateNs = 2'000'000;

} // namespace

HttpClients::HttpClients(World &world, ConnectionRegistry &registry, MessageBoard &board)
    : Entry{world.timetable}, world_{world}, registry_{registry}, board_{board},
      plan_{std::make_shared<RequestPlan>()} {}

void HttpClients::load(RequestPlan plan) {
    stop();
    plan_ = std::make_shared<RequestPlan>(std::move(plan));
    plan_->clear_results();
}

void HttpClients::start(std::int64_t start_ns) {
    stop();
    start_ns_ = start_ns;
    next_ = 0;
    late_starts_ = 0;
    board_.counts = {};
    plan_->clear_results();
    if (plan_->size() > 0)
        world_.timetable.set(*this, start_ns + plan_->request(plan_->by_start()[0]).start_ns);
    publish();
}

std::size_t HttpClients::stop() {
    start_ns_ = 0;
    world_.timetable.cancel(*this);
    const auto runs = runs_;
    for (const auto &run : runs)
        run->end(DCGYM_HTTP_CUT);
    const auto closing = closing_;
    for (const auto &[key, run] : closing)
        run->close_silently();
    publish();
    return runs.size();
}

void HttpClients::due() {
    const auto &order = plan_->by_start();
    for (std::size_t count = 0; next_ < order.size(); ++next_, ++count) {
        const std::int64_t planned_ns = start_ns_ + plan_->request(order[next_]).start_ns;
        if (planned_ns > now_ns())
            return world_.timetable.set(*this, planned_ns);
        if (count == kStartsAtOnce)
            return world_.timetable.set(*this, now_ns());
        launch(order[next_], planned_ns);
    }
}

void HttpClients::launch(std::size_t id, std::int64_t planned_ns) {
    RequestRun::Owner &owner = *this;
    const auto run = std::make_shared<RequestRun>(world_, registry_, plan_, id, owner);
    late_starts_ += run->result().start_ns - planned_ns > kLateNs ? 1 : 0;
    run->place = runs_.size();
    runs_.push_back(run);
    try {
        run->begin();
    } catch (const std::exception &) {
        run->end(DCGYM_HTTP_REFUSED);
    }
}

void HttpClients::ended(RequestRun &run) {
    plan_->write(run.id(), run.result());
    closing_[&run] = run.shared_from_this();
    const std::size_t place = run.place;
    std::swap(runs_[place], runs_.back());
    runs_[place]->place = place;
    runs_.pop_back();
}

void HttpClients::closed(RequestRun &run) {
    closing_.erase(&run);
}

void HttpClients::publish() {
    if (plan_->size() == 0)
        return;
    dcgym_http_header &header = plan_->header();
    header.heartbeat_ns = static_cast<std::uint64_t>(now_ns());
    header.start_ns = static_cast<std::uint64_t>(start_ns_);
    header.started = next_;
    header.late_starts = late_starts_;
    header.active = runs_.size();
    header.message_answers = board_.counts.answers;
    header.idle_messages = board_.counts.idle;
    header.messages_lost = board_.counts.lost;
    header.unknown_messages = board_.counts.unknown;
}

} // namespace dcgym
