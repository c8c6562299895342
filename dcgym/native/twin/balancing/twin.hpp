// SPDX-License-Identifier: Apache-2.0
// Many simulations of one scenario, as NumPy arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/workers.hpp"
#include "simulation.hpp"

namespace dcgym::twin::balancing {

namespace py = pybind11;

using Mask = py::array_t<uint8_t, py::array::c_style>;
using Doubles = py::array_t<double, py::array::c_style>;
using Servers = py::array_t<int32_t, py::array::c_style>;
using Integers = py::array_t<int64_t, py::array::c_style>;

class Twin {
  public:
    Twin(const py::dict &config, size_t n_envs, size_t threads, size_t record_limit,
         int64_t warm_up_ns);

    void reset(const py::array_t<uint64_t, py::array::c_style> &seeds, const Mask &mask);
    void set_rules(const std::vector<uint32_t> &rules, const Mask &mask);
    void set_weights(const Doubles &weights, const Mask &mask);
    // Servers that may take new flows, a flag for each environment and server.
    void set_in_service(const Mask &flags, const Mask &mask);
    // Returns the time of each environment.
    py::array advance(const Integers &until_ns);
    void drain(const Integers &until_ns, const Mask &mask);
    void hold_flows(uint64_t most, const Mask &mask);
    // Puts the flows that wait on these servers, below 0: on those of the rule.
    void assign(const Servers &servers, const Mask &mask);
    // The time of each environment, its view, its truth, and what is known of flows that wait, as
    // dcgym.tasks.balancing.protocol names them.
    py::tuple read(const std::vector<uint8_t> &sampled);
    py::array records(size_t env);
    py::array under_way(size_t env);
    py::dict summary(size_t env);
    py::bytes region(size_t env, size_t frontend);

  private:
    // Calls work(env) for each environment, spread over the threads, without the interpreter.
    void for_each(const std::function<void(size_t, Interrupt &)> &work);
    py::array rows_of(const Records &found) const;
    void check_begun() const;

    std::shared_ptr<const Config> config_;
    std::vector<Simulation> simulations_;
    Workers workers_;
    size_t frontends_, servers_;
};

} // namespace dcgym::twin::balancing
