// SPDX-License-Identifier: Apache-2.0
// A resource that its jobs share equally, as the compiled twin and the emulated servers have it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dcgym {

// Jobs that are served together, all at one rate. In virtual time, which runs at that rate, a job
// ends its demand after its beginning, whatever joins or leaves meanwhile.
class SharedResource {
  public:
    void clear() { *this = SharedResource(); }
    size_t size() const { return jobs_.size(); }

    void set_rate(int64_t now_ns, double rate) {
        if (rate == rate_ && !jobs_.empty())
            return;
        virtual_ = jobs_.empty() ? 0 : virtual_at(now_ns);
        if (jobs_.empty())
            finish_sum_ = 0;
        since_ns_ = now_ns;
        rate_ = jobs_.empty() ? 0 : rate;
    }

    // Returns the job's end in virtual time.
    double add(int64_t now_ns, int64_t demand_ns, uint64_t number, uint32_t job) {
        const double finish = virtual_at(now_ns) + static_cast<double>(demand_ns);
        jobs_.push_back({finish, number, job});
        std::push_heap(jobs_.begin(), jobs_.end());
        finish_sum_ += finish;
        return finish;
    }

    // Removes the job that ends first; its end is now.
    uint32_t finish_first(int64_t now_ns) {
        std::pop_heap(jobs_.begin(), jobs_.end());
        const Job first = jobs_.back();
        jobs_.pop_back();
        // The event's time was rounded up to whole nanoseconds; rounding may still fall short.
        virtual_ = std::max(virtual_at(now_ns), first.finish);
        since_ns_ = now_ns;
        finish_sum_ -= first.finish;
        return first.job;
    }

    // When the first job ends, if nothing changes; there must be one.
    int64_t first_end_ns() const {
        const double wait_ns = std::ceil((jobs_.front().finish - virtual_) / rate_);
        return since_ns_ + static_cast<int64_t>(std::clamp(wait_ns, 0.0, longest_ns));
    }

    // Demand left of a job that ends at this virtual time, and of all jobs.
    double left(int64_t now_ns, double finish) const {
        return std::max(0.0, finish - virtual_at(now_ns));
    }
    double all_left(int64_t now_ns) const {
        const auto n = static_cast<double>(jobs_.size());
        return jobs_.empty() ? 0 : std::max(0.0, finish_sum_ - n * virtual_at(now_ns));
    }

  private:
    struct Job {
        double finish;
        uint64_t number; // decides between equal ends
        uint32_t job;

        bool operator<(const Job &other) const { // the heap's top is the first to end
            return finish > other.finish || (finish == other.finish && number > other.number);
        }
    };

    static constexpr double longest_ns = 0x1p61;

    double virtual_at(int64_t now_ns) const {
        return virtual_ + rate_ * static_cast<double>(now_ns - since_ns_);
    }

    std::vector<Job> jobs_;
    double virtual_ = 0; // as of since_ns_
    double rate_ = 0;    // of virtual time; 0 without jobs
    double finish_sum_ = 0;
    int64_t since_ns_ = 0;
};

} // namespace dcgym
