// SPDX-License-Identifier: Apache-2.0
// Many simulations of one pool, as NumPy arrays.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/workers.hpp"
#include "simulation.hpp"

namespace dcgym::twin::accelerators {

namespace py = pybind11;

using Mask = py::array_t<uint8_t, py::array::c_style>;
using Doubles = py::array_t<double, py::array::c_style>;
using Integers = py::array_t<int64_t, py::array::c_style>;

class Twin {
  public:
    Twin(const py::dict &config, size_t n_envs, size_t threads);

    void reset(const py::array_t<uint64_t, py::array::c_style> &seeds, const Doubles &rates,
               const Mask &mask);
    // Below 0: stays as it is.
    void set_rules(int server_rule, int device_rule, const Mask &mask);
    void set_weights(const Doubles &weights, const Mask &mask);
    void advance(const Integers &until_ns);
    // What has happened since the last call, of the environments in the mask; zeros of others.
    py::dict read(const Mask &mask);
    py::array records(size_t env);
    py::array under_way(size_t env) const;

  private:
    void for_each(const std::function<void(size_t, Interrupt &)> &work);

    std::shared_ptr<const Config> config_;
    std::vector<Simulation> simulations_;
    Workers workers_;
    size_t servers_;
};

} // namespace dcgym::twin::accelerators
