// SPDX-License-Identifier: Apache-2.0
// Prequal's pool, peak-EWMA and C3's score by themselves, for tests.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <tuple>
#include <utility>
#include <vector>

#include "informed.hpp"
#include "prequal.hpp"

namespace py = pybind11;
using namespace dcgym::twin::balancing;

namespace {

using Answer = std::tuple<uint16_t, uint32_t, int64_t>; // server, requests in flight, latency_ns

std::vector<ProbeAnswer> pool_of(const std::vector<Answer> &answers) {
    if (answers.size() > Prequal::most_answers)
        throw py::value_error("answers: at most " + std::to_string(Prequal::most_answers));
    std::vector<ProbeAnswer> pool;
    for (const auto &[server, in_flight, latency_ns] : answers)
        pool.push_back({server, in_flight, latency_ns, 0, 1});
    return pool;
}

// A balancer's pool with a generator of its own.
class Pool {
  public:
    Pool(double quantile, double probes, int64_t timeout_ns, std::vector<uint16_t> servers,
         uint64_t seed)
        : config_{quantile, probes, timeout_ns}, servers_(std::move(servers)), random_(seed) {}

    uint64_t ask(int64_t now_ns) { return pool_.ask(now_ns, config_.timeout_ns); }
    const char *answer(uint64_t serial, int64_t sent_ns, int64_t now_ns, const Answer &found) {
        const auto &[server, in_flight, latency_ns] = found;
        constexpr const char *names[] = {"taken", "late", "repeated"};
        const Prequal::Verdict verdict =
            pool_.answer(config_, serial, sent_ns, {server, in_flight, latency_ns, now_ns, 0},
                         servers_.size(), &random_);
        return names[static_cast<size_t>(verdict)];
    }
    int choose(int64_t now_ns) {
        const uint16_t found = pool_.choose(config_, servers_, now_ns);
        return found == no_server ? -1 : found;
    }
    void leave(uint16_t server) { std::erase(servers_, server); }
    py::list answers() const {
        py::list found;
        for (const ProbeAnswer &a : pool_.answers())
            found.append(py::make_tuple(a.server, a.in_flight, a.latency_ns, a.uses));
        return found;
    }

  private:
    PrequalConfig config_;
    std::vector<uint16_t> servers_;
    __u64 random_;
    Prequal pool_;
};

int64_t latency_estimate(const std::vector<std::pair<uint32_t, int64_t>> &samples,
                         uint32_t in_flight) {
    LatencyRing ring;
    for (const auto &[load, latency_ns] : samples)
        ring.add(load, latency_ns);
    return ring.estimate(in_flight);
}

double peak_ewma_cost(const std::vector<std::pair<double, int64_t>> &samples, uint32_t pending,
                      int64_t now_ns) {
    PeakEwma estimate;
    for (const auto &[value_ns, time_ns] : samples)
        estimate.sample(value_ns, time_ns);
    return estimate.cost(pending, now_ns);
}

double c3_score(double response_ns, double service_ns, double queue, uint32_t outstanding,
                size_t balancers) {
    return C3Rank{response_ns, service_ns, queue}.score(outstanding, balancers);
}

} // namespace

void bind_informed(py::module_ &module) {
    using namespace py::literals;
    module.def(
        "prequal_best",
        [](const std::vector<Answer> &answers, double quantile) {
            return Prequal::best(pool_of(answers), quantile);
        },
        "answers"_a, "quantile"_a, "Position of the answer that wins.");
    module.def(
        "prequal_worst",
        [](const std::vector<Answer> &answers, double quantile) {
            return Prequal::worst(pool_of(answers), quantile);
        },
        "answers"_a, "quantile"_a, "Position of the worst answer.");
    module.def(
        "prequal_reuse",
        [](double probes, size_t n) {
            PrequalConfig config;
            config.probes = probes;
            return Prequal::reuse(config, n);
        },
        "probes"_a, "n"_a, "How often an answer is used.");
    module.def("prequal_capacity", &Prequal::capacity, "n"_a, "Answers that a pool holds.");
    module.def("latency_estimate", &latency_estimate, "samples"_a, "in_flight"_a,
               "What a server answers with these samples.");
    module.def("peak_ewma_cost", &peak_ewma_cost, "samples"_a, "pending"_a, "now_ns"_a,
               "The cost after these samples, (value_ns, time_ns).");
    module.def("c3_score", &c3_score, "response_ns"_a, "service_ns"_a, "queue"_a, "outstanding"_a,
               "balancers"_a, "C3's score.");
    py::class_<Pool>(module, "PrequalPool")
        .def(py::init<double, double, int64_t, std::vector<uint16_t>, uint64_t>(), "quantile"_a,
             "probes"_a, "timeout_ns"_a, "servers"_a, "seed"_a)
        .def("ask", &Pool::ask, "now_ns"_a)
        .def("answer", &Pool::answer, "serial"_a, "sent_ns"_a, "now_ns"_a, "found"_a)
        .def("choose", &Pool::choose, "now_ns"_a)
        .def("leave", &Pool::leave, "server"_a)
        .def("answers", &Pool::answers);
}
