// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/world.hpp"
#include "service_station.hpp"

namespace dcgym {

/// The resources of a server.
class Service {
  public:
    /// Requests by what they occupy.
    struct Load {
        std::uint32_t waiting = 0; /* for the first resource */
        std::uint32_t on_first = 0;
        std::uint32_t later = 0; /* at the others */
    };
    /// Told of every request that ends, never from within serve().
    using OnEnd = std::function<void(const ServiceStation::Ended &)>;

    virtual ~Service() = default;
    virtual void serve(std::uint64_t ticket, std::span<const ServiceStage> stages) = 0;
    virtual void set_speed(double factor) = 0;
    virtual void set_colocated(double processes) = 0;
    virtual Load load() const = 0;
};

/// A service that passes time instead of using the machine's processors.
class TimedService final : public Service, private Timetable::Entry {
  public:
    TimedService(World &world, const StationConfig &config, OnEnd on_end);

    void serve(std::uint64_t ticket, std::span<const ServiceStage> stages) override;
    void set_speed(double factor) override;
    void set_colocated(double processes) override;
    Load load() const override;

  private:
    void due() override;
    std::int64_t catch_up();
    void wait(std::int64_t now);

    World &world_;
    ServiceStation station_;
    OnEnd on_end_;
};

} // namespace dcgym
