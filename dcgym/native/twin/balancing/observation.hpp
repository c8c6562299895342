// SPDX-License-Identifier: Apache-2.0
// The arrays of dcgym.tasks.balancing.protocol, filled one environment at a time by any thread.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "core/column.hpp"
#include "simulation.hpp"

namespace dcgym::twin::balancing {

namespace py = pybind11;

// What balancers can know. Samples are reduced for the chosen balancers alone.
class View {
  public:
    View(size_t envs, size_t frontends, size_t servers, std::vector<uint8_t> sampled);
    void fill(size_t env, Simulation &simulation);
    py::dict dict() const;

  private:
    void fill_frontend(size_t row, Frontend &frontend, int64_t now_ns);
    void fill_server(size_t at, uint16_t number, Frontend &frontend, int64_t now_ns);
    void clear_samples(size_t row);
    void fill_samples(size_t row, Frontend &frontend, int64_t now_ns);

    std::vector<uint8_t> sampled_;
    size_t frontends_, servers_;
    Column<int64_t> ongoing_, flows_, completed_, packets_;
    Column<int64_t> probe_busy_, probe_queue_, probe_time_, probe_answered_, probe_errors_;
    Column<int64_t> untracked_;
    Column<double> duration_, completion_, interarrival_;
    Column<double> weights_;
    Column<bool> eligible_, up_;
};

// What nobody in the network knows.
class Truth {
  public:
    Truth(size_t envs, size_t frontends, size_t servers);
    void fill(size_t env, const Simulation &simulation);
    py::dict dict() const;

  private:
    size_t frontends_, servers_;
    Column<int64_t> queue_, assigned_, busy_;
    Column<int64_t> ended_, ended_after_;
    Column<int64_t> rejected_, violations_;
    Column<double> remaining_, capacity_;
    Column<double> parts_;
};

// What an agent that places every flow is told of the one that waits, and of the servers.
class Held {
  public:
    Held(size_t envs, size_t servers);
    void fill(size_t env, const Simulation &simulation);
    py::dict dict() const;

  private:
    size_t servers_;
    Column<int64_t> begun_, demand_, flow_time_, under_way_, failed_;
    Column<int64_t> waiting_work_;
    Column<double> in_service_;
    Column<bool> waits_;
};

} // namespace dcgym::twin::balancing
