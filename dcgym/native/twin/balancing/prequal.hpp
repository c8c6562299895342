// SPDX-License-Identifier: Apache-2.0
// Prequal (Wydrowski, Kleinberg, Rumble, Archer, NSDI 2024): a balancer's pool of probe answers,
// and what a server answers from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flow.hpp"

namespace dcgym::twin::balancing {

// An answer in a balancer's pool.
struct ProbeAnswer {
    uint16_t server;
    uint32_t in_flight;
    int64_t latency_ns;
    int64_t received_ns;
    uint32_t uses; // that are left
};

class Prequal {
  public:
    static constexpr size_t most_answers = 16;
    static constexpr int64_t age_limit_ns = 1'000'000'000;
    static constexpr double removals = 1; // a request
    static constexpr double slack = 1;    // delta, of the reuse budget

    void clear();
    // A server for a request, no_server if fewer than two answers are left; then the pool's upkeep.
    uint16_t choose(const PrequalConfig &config, const std::vector<uint16_t> &servers,
                    int64_t now_ns);
    // Registers a probe and returns its number.
    uint64_t ask(int64_t now_ns, int64_t timeout_ns);

    enum class Verdict : uint8_t { taken, late, repeated };
    // An answer of a pool of `n` servers arrives; a fraction of the reuse budget is drawn.
    Verdict answer(const PrequalConfig &config, uint64_t serial, int64_t sent_ns,
                   const ProbeAnswer &found, size_t n, __u64 *random);

    // How often an answer is used, for a pool of n servers.
    static double reuse(const PrequalConfig &config, size_t n);
    // Small fleets have a smaller pool: of 16 answers, half would be about the same servers.
    static size_t capacity(size_t n);
    // Position of the answer that wins: of the cold ones the least latency, else the least in
    // flight; -1 without answers.
    static int best(const std::vector<ProbeAnswer> &answers, double quantile);
    // Position of the worst answer: of the hot ones the most in flight, else the highest latency.
    static int worst(const std::vector<ProbeAnswer> &answers, double quantile);
    const std::vector<ProbeAnswer> &answers() const { return answers_; }

  private:
    static uint32_t threshold(const std::vector<ProbeAnswer> &answers, double quantile);
    void forget(const std::vector<uint16_t> &servers, int64_t now_ns);
    void remove(double quantile);

    std::vector<ProbeAnswer> answers_; // the oldest first
    struct Asked {
        uint64_t serial;
        int64_t until_ns;
    };
    std::vector<Asked> asked_;
    uint64_t serial_ = 0;
    bool oldest_next_ = true;
};

// What a server knows of its requests' latencies: the last ones with the load they met.
class LatencyRing {
  public:
    static constexpr size_t size = 64; // our choice; the paper does not print one

    void add(uint32_t in_flight, int64_t latency_ns);
    // Median of the latencies that were sampled at this load, or the nearest one with samples; 0
    // without any.
    int64_t estimate(uint32_t in_flight) const;

  private:
    struct Sample {
        uint32_t in_flight;
        int64_t latency_ns;
    };
    std::array<Sample, size> samples_{};
    size_t count_ = 0;
};

} // namespace dcgym::twin::balancing
