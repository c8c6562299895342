// SPDX-License-Identifier: Apache-2.0
// Prequal's pool, peak-EWMA and C3's score by themselves, for tests.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "latency_ring.hpp"
#include "prequal.hpp"
#include "rules.h"

namespace py = pybind11;
using namespace dcgym::twin::balancing;
using dcgym::LatencyRing;
using dcgym::PrequalConfig;

namespace {

using Answer = std::tuple<uint16_t, uint32_t, uint64_t>; // server, requests in flight, latency_ns
using Members = std::array<__u64, DCGYM_SET_WORDS(DCGYM_RULE_SERVERS)>;
using Row = std::array<uint64_t, 6>; // a server's dcgym_heard, or an answer

PrequalConfig of_quantile(double quantile) {
    PrequalConfig config;
    config.quantile = quantile;
    return config;
}

dcgym_prequal pool_of(const std::vector<Answer> &answers) {
    if (answers.size() > DCGYM_PREQUAL_ANSWERS)
        throw py::value_error("answers: at most " + std::to_string(DCGYM_PREQUAL_ANSWERS));
    dcgym_prequal pool{};
    for (const auto &[server, in_flight, latency_ns] : answers) {
        const dcgym_answer answer{0, 0, latency_ns, in_flight, server, 1};
        dcgym_prequal_insert(&pool, DCGYM_PREQUAL_ANSWERS, &answer, 0);
    }
    return pool;
}

int extreme(const std::vector<Answer> &answers, double quantile, bool worst) {
    const dcgym_prequal pool = pool_of(answers);
    const dcgym_prequal_places places = of_quantile(quantile).places();
    if (pool.n == 0)
        return -1;
    return static_cast<int>(
        dcgym_prequal_extreme(&pool, dcgym_prequal_threshold(&pool, &places), worst));
}

std::vector<dcgym_answer> by_age(const dcgym_prequal &pool) {
    std::vector<dcgym_answer> found(pool.answers, pool.answers + pool.n);
    std::sort(found.begin(), found.end(),
              [](const dcgym_answer &a, const dcgym_answer &b) { return a.order < b.order; });
    return found;
}

// A balancer's pool with a generator of its own.
class Pool {
  public:
    Pool(double quantile, double probes, int64_t timeout_ns, const std::vector<uint16_t> &servers,
         uint64_t seed)
        : config_{quantile, probes, timeout_ns}, places_(config_.places()), n_(servers.size()),
          random_(seed) {
        for (const uint16_t server : servers)
            dcgym_set_add(members_.data(), server);
    }

    uint64_t ask(int64_t now_ns) { return asked_.ask(now_ns, config_.timeout_ns); }
    const char *answer(uint64_t serial, int64_t sent_ns, int64_t now_ns, const Answer &found) {
        const auto &[server, in_flight, latency_ns] = found;
        constexpr const char *names[] = {"taken", "late", "repeated"};
        const dcgym_answer answer{0, static_cast<uint64_t>(now_ns), latency_ns, in_flight, server,
                                  0};
        const auto verdict = asked_.answer(config_, serial, sent_ns, answer, n_, &random_);
        return names[static_cast<size_t>(verdict)];
    }
    int choose(uint64_t now_ns) {
        const uint32_t found =
            dcgym_prequal_choose(&asked_.pool, &places_, members_.data(), now_ns);
        return found == DCGYM_NO_SERVER ? -1 : static_cast<int>(found);
    }
    void leave(uint16_t server) {
        members_[dcgym_rule_bound(server) >> 6] &= ~(1ULL << (server & 63));
        n_--;
    }
    py::list answers() const {
        py::list found;
        for (const dcgym_answer &a : by_age(asked_.pool))
            found.append(py::make_tuple(a.server, a.in_flight, a.latency_ns, a.uses));
        return found;
    }

  private:
    PrequalConfig config_;
    dcgym_prequal_places places_;
    size_t n_;
    Members members_{};
    __u64 random_;
    Prequal asked_;
};

// One more for each probe before the last one, whose answer it returns.
int64_t latency_estimate(const std::vector<std::pair<uint32_t, int64_t>> &samples,
                         uint32_t in_flight, uint64_t probes) {
    LatencyRing ring;
    for (const auto &[load, latency_ns] : samples)
        ring.add(load, latency_ns);
    for (uint64_t i = 1; i < probes; i++)
        ring.answer(in_flight);
    return ring.answer(in_flight);
}

double peak_ewma_cost(const std::vector<std::pair<uint64_t, uint64_t>> &samples, uint32_t pending,
                      uint64_t now_ns) {
    const Members joined{1};
    dcgym_heard heard{};
    dcgym_idle_queue idle{};
    dcgym_met met{};
    dcgym_meet(&met, &heard, &idle, joined.data(), 0, 0);
    for (const auto &[value_ns, time_ns] : samples)
        dcgym_peak_sample(&heard, value_ns, time_ns);
    return static_cast<double>(dcgym_peak_cost(&heard, pending, now_ns)) / (1 << DCGYM_PEAK_SHIFT);
}

double c3_score(uint64_t response_ns, uint64_t service_ns, double queue, uint32_t outstanding,
                size_t balancers) {
    dcgym_heard heard{};
    heard.response_ns = response_ns;
    heard.service_ns = service_ns;
    heard.queue = static_cast<uint64_t>(queue * (1 << DCGYM_C3_QUEUE_SHIFT));
    return static_cast<double>(dcgym_c3_score(&heard, outstanding, balancers)) -
           static_cast<double>(DCGYM_C3_LONGEST_NS);
}

dcgym_heard heard_of(const Row &row) {
    return {row[0], row[1], row[2], row[3], row[4], row[5]};
}

// What a balancer was told, with the arrays that its views point at.
struct Told {
    Told(const std::vector<Row> &heard_rows, const std::vector<Row> &answers, double quantile)
        : places(of_quantile(quantile).places()) {
        for (const Row &row : heard_rows)
            heard.push_back(heard_of(row));
        for (const Row &a : answers)
            pool.answers[pool.n++ % DCGYM_PREQUAL_ANSWERS] = {a[0],
                                                              a[1],
                                                              a[2],
                                                              static_cast<uint32_t>(a[3]),
                                                              static_cast<uint16_t>(a[4]),
                                                              static_cast<uint16_t>(a[5])};
        pool.last_order = answers.size();
    }

    py::list rows() const {
        py::list found;
        for (const dcgym_heard &of : heard)
            found.append(py::make_tuple(of.idle, of.peak, of.peak_time_ns, of.response_ns,
                                        of.service_ns, of.queue));
        return found;
    }

    std::vector<dcgym_heard> heard;
    dcgym_prequal pool{};
    dcgym_prequal_places places;
};

Members members_of(const std::vector<uint16_t> &servers, size_t n) {
    Members members{};
    for (const uint16_t server : servers) {
        if (server >= n)
            throw py::value_error("servers: each needs a queue and what was heard of it");
        dcgym_set_add(members.data(), server);
    }
    return members;
}

// So many choices in a row; the state carries over from one to the next. Those that the balancer
// has not met join.
py::dict choose_told(uint32_t rule, std::vector<uint16_t> servers,
                     const std::vector<uint32_t> &ongoing, uint64_t random, uint64_t now_ns,
                     size_t count, const std::vector<Row> &heard, const std::vector<Row> &answers,
                     double quantile, std::pair<uint64_t, uint64_t> idle_queue, uint32_t balancers,
                     const std::vector<uint16_t> &strangers, uint64_t c3_reset_ns) {
    const auto n = static_cast<uint32_t>(servers.size());
    if (answers.size() > DCGYM_PREQUAL_ANSWERS || n > DCGYM_RULE_SERVERS)
        throw py::value_error("answers, servers: too many");
    const size_t known = std::min(ongoing.size(), heard.size());
    const Members members = members_of(servers, known), unmet = members_of(strangers, known);
    dcgym_met met{1, {}};
    for (size_t i = 0; i < members.size(); i++)
        met.members[i] = members[i] & ~unmet[i];
    servers.resize(n + DCGYM_RULE_STRIDE);
    Told told(heard, answers, quantile);
    dcgym_idle_queue idle{idle_queue.first, idle_queue.second};
    const dcgym_told_view view{told.heard.data(), &idle, &told.pool,  &told.places,
                               members.data(),    &met,  c3_reset_ns, balancers};
    const dcgym_pool_view pool{n, servers.data(), nullptr, nullptr};
    __u64 generator = random;
    dcgym_state_view state{&generator, nullptr, ongoing.data(), nullptr, nullptr, nullptr, &view};
    std::vector<uint32_t> choices;
    for (size_t i = 0; i < count; i++)
        choices.push_back(dcgym_choose(rule, &pool, &state, 0, now_ns));
    py::list left;
    for (const dcgym_answer &a : by_age(told.pool))
        left.append(py::make_tuple(a.order, a.in_flight, a.server, a.uses));
    using namespace py::literals;
    return py::dict("choices"_a = choices, "random"_a = uint64_t{generator}, "answers"_a = left,
                    "heard"_a = told.rows(),
                    "idle"_a = std::pair<uint64_t, uint64_t>{idle.last, idle.taken});
}

} // namespace

void bind_informed(py::module_ &module) {
    using namespace py::literals;
    module.def(
        "prequal_best",
        [](const std::vector<Answer> &answers, double quantile) {
            return extreme(answers, quantile, false);
        },
        "answers"_a, "quantile"_a, "Position of the answer that wins.");
    module.def(
        "prequal_worst",
        [](const std::vector<Answer> &answers, double quantile) {
            return extreme(answers, quantile, true);
        },
        "answers"_a, "quantile"_a, "Position of the worst answer.");
    module.def(
        "prequal_reuse",
        [](double probes, size_t n) {
            PrequalConfig config;
            config.probes = probes;
            return config.reuse(n);
        },
        "probes"_a, "n"_a, "How often an answer is used.");
    module.def("prequal_capacity", &PrequalConfig::capacity, "n"_a, "Answers that a pool holds.");
    module.def("latency_estimate", &latency_estimate, "samples"_a, "in_flight"_a, "probes"_a = 1,
               "What a server answers to the last of so many probes after these samples.");
    module.def(
        "peak_ewma_cost", &peak_ewma_cost, "samples"_a, "pending"_a, "now_ns"_a,
        "The cost in ns after these samples, (value_ns, time_ns), of a server that joined at 0; a "
        "look is a sample of 0.");
    module.def("c3_score", &c3_score, "response_ns"_a, "service_ns"_a, "queue"_a, "outstanding"_a,
               "balancers"_a, "C3's score.");
    module.def("choose_told", &choose_told, "rule"_a, "servers"_a, "ongoing"_a, "random"_a,
               "now_ns"_a, "count"_a, "heard"_a, "answers"_a = std::vector<Row>(),
               "quantile"_a = 0.5, "idle"_a = std::pair<uint64_t, uint64_t>{0, 0},
               "balancers"_a = 1, "strangers"_a = std::vector<uint16_t>(), "c3_reset_ns"_a = 0,
               "Let a rule of messages choose so often.");
    py::class_<Pool>(module, "PrequalPool")
        .def(py::init<double, double, int64_t, std::vector<uint16_t>, uint64_t>(), "quantile"_a,
             "probes"_a, "timeout_ns"_a, "servers"_a, "seed"_a)
        .def("ask", &Pool::ask, "now_ns"_a)
        .def("answer", &Pool::answer, "serial"_a, "sent_ns"_a, "now_ns"_a, "found"_a)
        .def("choose", &Pool::choose, "now_ns"_a)
        .def("leave", &Pool::leave, "server"_a)
        .def("answers", &Pool::answers);
}
