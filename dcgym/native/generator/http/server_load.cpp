// SPDX-License-Identifier: Apache-2.0
// What a server knows of its load, tells balancers, and does wrong.
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "server.hpp"

namespace dcgym {
namespace {

/* Of the work that a gray failure makes of a request: our choice, as in the twin. */
constexpr std::int64_t kGrayFactor = 10;
constexpr double kServiceMemory = 0.1; /* weight of a new service time, as in the twin */

} // namespace

std::uint32_t HttpServer::queue() const {
    const Service::Load load = service_ ? service_->load() : Service::Load{};
    return load.waiting + load.on_first + load.later;
}

void HttpServer::open_messages() {
    messages_.reset();
    if (!board_.balancers.empty())
        messages_ = std::make_unique<MessagePort>(world_, board_, spec_.host, number_,
                                                  [this] { return answer_probe(); });
}

MessagePort::Load HttpServer::answer_probe() {
    const std::uint32_t load = queue();
    const double told = load * faults_.report_factor + 0.5;
    return {static_cast<std::uint32_t>(std::min(told, 4e9)), latencies_.answer(load)};
}

void HttpServer::begin_service(std::uint64_t ticket, std::vector<ServiceStage> stages) {
    if (draw(faults_.gray_share))
        for (ServiceStage &stage : stages)
            stage.demand_ns *= kGrayFactor;
    met_[ticket] = {queue(), now_ns()};
    service_->serve(ticket, stages);
}

void HttpServer::note_service(std::int64_t service_ns) {
    const auto service = static_cast<double>(service_ns);
    mean_service_ns_ += (mean_service_ns_ <= 0 ? 1 : kServiceMemory) * (service - mean_service_ns_);
}

void HttpServer::note_answer(std::uint32_t met, std::int64_t received_ns) {
    latencies_.add(met, now_ns() - received_ns);
    if (messages_ && queue() + handshaking_ == 0)
        messages_->tell_idle();
}

} // namespace dcgym
