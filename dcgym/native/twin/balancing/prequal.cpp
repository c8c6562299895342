// SPDX-License-Identifier: Apache-2.0
#include "prequal.hpp"

#include <algorithm>
#include <cmath>

namespace dcgym::twin::balancing {

void Prequal::clear() {
    *this = {};
}

size_t Prequal::capacity(size_t n) {
    return std::min(most_answers, std::max<size_t>(2, n / 2));
}

// The paper's budget; where it is not positive, which its authors' fleets never see, two uses.
double Prequal::reuse(const PrequalConfig &config, size_t n) {
    const double m = static_cast<double>(capacity(n)) / static_cast<double>(n);
    const double net = (1 - m) * config.probes - removals;
    return net > 0 ? std::max(1.0, (1 + slack) / net) : 2.0;
}

// Among the servers' newest answers, so that none counts twice. Of the ranks beside the quantile
// the lower one: with the upper one the most loaded of up to six servers would never be hot.
uint32_t Prequal::threshold(const std::vector<ProbeAnswer> &answers, double quantile) {
    std::array<uint32_t, most_answers> loads{};
    size_t n = 0;
    for (size_t i = 0; i < answers.size(); i++) {
        const auto same = [&](const ProbeAnswer &other) {
            return other.server == answers[i].server;
        };
        const auto newer = answers.begin() + static_cast<ptrdiff_t>(i) + 1;
        if (std::none_of(newer, answers.end(), same))
            loads[n++] = answers[i].in_flight;
    }
    std::sort(loads.begin(), loads.begin() + static_cast<ptrdiff_t>(n));
    return loads[static_cast<size_t>(quantile * static_cast<double>(n - 1))];
}

int Prequal::best(const std::vector<ProbeAnswer> &answers, double quantile) {
    if (answers.empty())
        return -1;
    const uint32_t most = threshold(answers, quantile);
    const auto before = [most](const ProbeAnswer &a, const ProbeAnswer &b) {
        const bool cold_a = a.in_flight <= most, cold_b = b.in_flight <= most;
        if (cold_a != cold_b)
            return cold_a;
        return cold_a ? a.latency_ns < b.latency_ns : a.in_flight < b.in_flight;
    };
    return static_cast<int>(std::min_element(answers.begin(), answers.end(), before) -
                            answers.begin());
}

int Prequal::worst(const std::vector<ProbeAnswer> &answers, double quantile) {
    if (answers.empty())
        return -1;
    const uint32_t most = threshold(answers, quantile);
    const auto better = [most](const ProbeAnswer &a, const ProbeAnswer &b) {
        const bool hot_a = a.in_flight > most, hot_b = b.in_flight > most;
        if (hot_a != hot_b)
            return hot_b;
        return hot_a ? a.in_flight < b.in_flight : a.latency_ns < b.latency_ns;
    };
    return static_cast<int>(std::max_element(answers.begin(), answers.end(), better) -
                            answers.begin());
}

// Answers that are old, used up, or of servers that take no flows any more.
void Prequal::forget(const std::vector<uint16_t> &servers, int64_t now_ns) {
    std::erase_if(answers_, [&](const ProbeAnswer &answer) {
        return answer.uses == 0 || now_ns - answer.received_ns > age_limit_ns ||
               !std::binary_search(servers.begin(), servers.end(), answer.server);
    });
}

void Prequal::remove(double quantile) {
    if (answers_.empty())
        return;
    const int place = oldest_next_ ? 0 : worst(answers_, quantile);
    oldest_next_ = !oldest_next_;
    answers_.erase(answers_.begin() + place);
}

uint16_t Prequal::choose(const PrequalConfig &config, const std::vector<uint16_t> &servers,
                         int64_t now_ns) {
    uint16_t chosen = no_server;
    forget(servers, now_ns);
    if (answers_.size() >= 2) {
        ProbeAnswer &answer = answers_[static_cast<size_t>(best(answers_, config.quantile))];
        chosen = answer.server;
        answer.uses--;
        for (ProbeAnswer &other : answers_)
            other.in_flight += other.server == chosen;
    }
    for (int i = 0; i < static_cast<int>(removals); i++)
        remove(config.quantile);
    return chosen;
}

uint64_t Prequal::ask(int64_t now_ns, int64_t timeout_ns) {
    std::erase_if(asked_, [now_ns](const Asked &asked) { return asked.until_ns < now_ns; });
    asked_.push_back({++serial_, now_ns + timeout_ns});
    return serial_;
}

Prequal::Verdict Prequal::answer(const PrequalConfig &config, uint64_t serial, int64_t sent_ns,
                                 const ProbeAnswer &found, size_t n, __u64 *random) {
    if (found.received_ns - sent_ns > config.timeout_ns)
        return Verdict::late;
    const size_t known =
        std::erase_if(asked_, [serial](const Asked &asked) { return asked.serial == serial; });
    if (known == 0)
        return Verdict::repeated;
    ProbeAnswer kept = found;
    const double budget = reuse(config, n), whole = std::floor(budget);
    const double drawn = static_cast<double>(dcgym_random(random) >> 11) * 0x1p-53;
    kept.uses = static_cast<uint32_t>(whole) + (drawn < budget - whole);
    if (answers_.size() >= capacity(n))
        answers_.erase(answers_.begin());
    answers_.push_back(kept);
    return Verdict::taken;
}

void LatencyRing::add(uint32_t in_flight, int64_t latency_ns) {
    samples_[count_++ % size] = {in_flight, latency_ns};
}

int64_t LatencyRing::estimate(uint32_t in_flight) const {
    const size_t n = std::min(count_, size);
    const auto distance = [in_flight](uint32_t load) {
        return load > in_flight ? load - in_flight : in_flight - load;
    };
    uint32_t nearest = 0xffffffff;
    for (size_t i = 0; i < n; i++)
        nearest = std::min(nearest, distance(samples_[i].in_flight));
    std::array<int64_t, size> found{};
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (distance(samples_[i].in_flight) == nearest)
            found[used++] = samples_[i].latency_ns;
    if (used == 0)
        return 0;
    const auto middle = found.begin() + static_cast<ptrdiff_t>((used - 1) / 2);
    std::nth_element(found.begin(), middle, found.begin() + static_cast<ptrdiff_t>(used));
    return *middle;
}

} // namespace dcgym::twin::balancing
