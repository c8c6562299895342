// SPDX-License-Identifier: Apache-2.0
#include "draws.hpp"

#include <algorithm>

namespace dcgym::twin {

std::vector<Arrival> draw_flows(const FlowWorkload &workload,
                                const std::vector<FlowRateChange> &changes, uint64_t seed,
                                int64_t until_ns, Interrupt &call) {
    const auto applications = static_cast<EventQueue::Owner>(workload.applications.size());
    const EventQueue::Owner modulation_owner = applications, change_owner = applications + 1;
    EventQueue queue;
    queue.reserve(change_owner + 1);
    FlowSource source(workload, seed, modulation_owner, change_owner + 1);
    source.begin(queue);
    size_t next = 0;
    const auto plan_change = [&](int64_t now_ns) {
        if (next < changes.size())
            queue.schedule(change_owner, std::max(now_ns, changes[next].at_ns));
    };
    plan_change(0);
    std::vector<Arrival> found;
    Interrupt::Events events(call);
    queue.run_until(until_ns, events, [&](const EventQueue::Event &event) {
        const EventQueue::Owner owner = event.owner();
        if (owner < applications) {
            const size_t application = source.come(owner, event.time_ns, queue);
            const DrawnFlow flow = source.draw(application, event.time_ns);
            found.push_back({flow.arrival_ns, flow.number, flow.demand_ns, flow.application});
        } else if (owner == modulation_owner) {
            source.modulate(queue);
        } else {
            const FlowRateChange &change = changes[next++];
            for (const uint32_t application : change.applications)
                source.change_rate(application, change.factor, event.time_ns, queue);
            plan_change(event.time_ns);
        }
    });
    return found;
}

std::vector<Arrival> draw_requests(const RequestWorkload &workload,
                                   const std::vector<double> &service_ns,
                                   const std::vector<std::pair<int64_t, double>> &rates,
                                   uint64_t seed, int64_t until_ns, Interrupt &call) {
    RequestSource source(workload, seed, rates.front().second);
    size_t next = 1;
    std::vector<Arrival> found;
    Interrupt::Events events(call);
    for (;;) {
        const int64_t change_ns = next < rates.size() ? rates[next].first : RequestSource::never;
        const int64_t now_ns = std::min(source.next_ns(), change_ns);
        if (now_ns > until_ns || now_ns == RequestSource::never)
            return found;
        // At the same time: changes, then arrivals.
        if (now_ns == change_ns) {
            source.set_rate(rates[next++].second, now_ns);
        } else {
            uint64_t hash = 0;
            const Request request = source.come(now_ns, hash);
            const double mean_ns = service_ns[request.application];
            found.push_back({request.arrival_ns,
                             request.number,
                             {whole_service_ns(request.demand * mean_ns)},
                             request.application});
        }
        events.next();
    }
}

} // namespace dcgym::twin
