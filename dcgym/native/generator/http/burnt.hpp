// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "service.hpp"

namespace dcgym {

/// A service whose first resource, the processors, are threads that really compute.
///
/// The jobs in service take turns of a millisecond, so that more jobs than threads share them.
/// Co-located processes, of which there are only whole ones here, take turns like jobs without
/// end. The kernel decides how much of a processor a thread gets: the machine must have enough.
class BurntService final : public Service {
  public:
    BurntService(World &world, const StationConfig &config, OnEnd on_end);
    ~BurntService() override;

    void serve(std::uint64_t ticket, std::span<const ServiceStage> stages) override;
    void set_speed(double factor) override;
    void set_colocated(double processes) override;
    Load load() const override;

  private:
    struct Job {
        std::vector<ServiceStage> stages;
        std::size_t stage = 0;
        std::int64_t served_ns = 0;
        double left_ns = 0; /* of the burnt stage under way, at speed 1 */
    };
    static constexpr std::uint64_t kColocated = ~std::uint64_t{0}; /* in the place of a ticket */

    void begin_stage(std::uint64_t ticket);
    void end_stage(std::uint64_t ticket);
    void end_later(const ServiceStation::Ended &stage);
    void leave(std::uint64_t ticket, bool refused);
    void begin_on_cpu(std::uint64_t ticket);
    void work();
    void take_turn(std::unique_lock<std::mutex> &lock);
    void leave_cpu(std::uint64_t ticket);

    World &world_;
    const ResourceConfig config_; /* of the processors */
    OnEnd on_end_;
    TimedService later_; /* for single stages at the other resources */

    mutable std::mutex mutex_; /* of what follows, up to the threads */
    std::condition_variable changed_;
    std::unordered_map<std::uint64_t, Job> jobs_;
    std::deque<std::uint64_t> ready_; /* in service, waiting for their turn */
    std::deque<std::uint64_t> waiting_;
    std::uint32_t on_cpu_ = 0;
    double factor_ = 1;
    std::uint64_t colocated_wanted_ = 0;
    std::uint64_t colocated_ = 0;
    bool stopped_ = false;

    std::vector<std::thread> threads_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

} // namespace dcgym
