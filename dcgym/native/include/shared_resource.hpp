// SPDX-License-Identifier: Apache-2.0
// Resources of a server and how jobs share them, as the compiled twin and the emulated servers have
// it: blocked processor sharing (Yao et al., appendix C.1, equation 42).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dcgym {

constexpr size_t max_resources = 8; // of a server

// Up to `slots` jobs are in service at once, each at full speed while there are no more than
// `workers`; the others wait. FIFO is the case slots = workers, a device that all jobs share the
// case of one worker and endless slots.
struct ResourceConfig {
    static constexpr uint32_t endless_slots = 0xffffffff;

    uint32_t workers = 1;
    uint32_t slots = endless_slots;
    double speed = 1; // of one worker

    // How fast each of the jobs in service is served.
    double rate(size_t jobs) const {
        const auto n = static_cast<double>(jobs);
        return n > workers ? speed * workers / n : speed;
    }
    // The same of processors that run at `factor` times their speed and that CPU-bound processes,
    // so many of them, share with the jobs. (The order of the multiplications decides the last bit
    // of recorded results.)
    double rate(size_t jobs, double factor, double colocated) const {
        const double n = static_cast<double>(jobs) + colocated;
        return speed * factor * (n > workers ? workers / n : 1);
    }
};

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
    // Appends the demand left of each job, in no order.
    void append_left(int64_t now_ns, std::vector<double> &to) const {
        for (const Job &job : jobs_)
            to.push_back(left(now_ns, job.finish));
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
