// SPDX-License-Identifier: Apache-2.0
#include "arrivals.hpp"

#include <algorithm>

namespace dcgym::twin {
namespace {

enum Part : uint64_t { gap_part, change_part, choice_part };

} // namespace

ArrivalProcess::ArrivalProcess(const ArrivalsConfig &config, uint64_t seed, double rate_per_ns)
    : config_(&config), gaps_(stream_seed(seed, gap_part, 0)),
      changing_(stream_seed(seed, change_part, 0)), choosing_(stream_seed(seed, choice_part, 0)),
      rate_per_ns_(rate_per_ns) {
    begin_modulation();
    if (config.recorded.empty())
        left_ = config.gaps.draw(gaps_.uniform());
    else
        begin_recording();
}

void ArrivalProcess::begin_recording() {
    const std::vector<double> &gaps = config_->recorded;
    if (config_->start == 0)
        return; // its first arrival is at time 0
    const double start = config_->start < 0 ? gaps_.uniform() : config_->start;
    double left = start * static_cast<double>(gaps.size());
    for (place_ = 0; place_ + 1 < gaps.size() && left >= gaps[place_]; place_++)
        left -= gaps[place_];
    left_ = std::max(0.0, gaps[place_] - left);
    place_ = (place_ + 1) % gaps.size();
}

void ArrivalProcess::begin_modulation() {
    const ModulationConfig &modulation = config_->modulation;
    const size_t n = modulation.factors.size();
    if (n == 0)
        return;
    double total_ns = 0;
    for (const double time_ns : modulation.times_ns)
        total_ns += time_ns;
    // Where in all times together it begins: with Markov, a state by its part of the time.
    const bool drawn = modulation.markov || modulation.phase < 0;
    double at_ns = (drawn ? changing_.uniform() : modulation.phase) * total_ns;
    for (state_ = 0; state_ + 1 < n && at_ns >= modulation.times_ns[state_]; state_++)
        at_ns -= modulation.times_ns[state_];
    change_at_ = modulation.times_ns[state_] - at_ns;
    if (modulation.markov)
        change_at_ = -portable_log(changing_.uniform()) * modulation.times_ns[state_];
    change_ns_ = static_cast<int64_t>(std::clamp(change_at_ + 0.5, 0.0, 0x1p60));
}

double ArrivalProcess::factor() const {
    const std::vector<double> &factors = config_->modulation.factors;
    return factors.empty() ? 1 : factors[state_];
}

int64_t ArrivalProcess::next_ns() const {
    const double rate_per_ns = rate_per_ns_ * factor();
    const double wait_ns = rate_per_ns > 0 ? left_ / rate_per_ns + 0.5 : 0x1p60;
    return since_ns_ + static_cast<int64_t>(std::min(wait_ns, 0x1p60));
}

void ArrivalProcess::settle(int64_t now_ns) {
    const double passed = static_cast<double>(now_ns - since_ns_) * rate_per_ns_ * factor();
    left_ = std::max(0.0, left_ - passed);
    since_ns_ = now_ns;
}

void ArrivalProcess::change() {
    const ModulationConfig &modulation = config_->modulation;
    settle(change_ns_);
    const size_t n = modulation.factors.size();
    if (modulation.markov) {
        const auto skipped = n > 2 ? static_cast<size_t>(changing_.between(0, int64_t(n) - 2)) : 0;
        state_ = (state_ + 1 + skipped) % n;
        change_at_ += -portable_log(changing_.uniform()) * modulation.times_ns[state_];
    } else {
        state_ = (state_ + 1) % n;
        change_at_ += modulation.times_ns[state_];
    }
    change_ns_ = std::max(change_ns_, static_cast<int64_t>(std::min(change_at_ + 0.5, 0x1p60)));
}

void ArrivalProcess::set_rate(int64_t now_ns, double rate_per_ns) {
    settle(now_ns);
    rate_per_ns_ = rate_per_ns;
}

size_t ArrivalProcess::arrived(int64_t now_ns) {
    since_ns_ = now_ns;
    if (config_->recorded.empty()) {
        left_ = config_->gaps.draw(gaps_.uniform());
        return 0;
    }
    const size_t came = place_;
    left_ = config_->recorded[came];
    place_ = (came + 1) % config_->recorded.size();
    return came;
}

} // namespace dcgym::twin
