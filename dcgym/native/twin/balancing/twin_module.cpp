// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "twin.hpp"

void bind_twin(pybind11::module_ &module) {
    namespace py = pybind11;
    using namespace py::literals;
    using namespace dcgym::twin::balancing;
    py::class_<Twin>(module, "BalancingTwin")
        .def(py::init<const py::dict &, size_t, size_t, size_t, int64_t>(), "config"_a, "n_envs"_a,
             "threads"_a, "record_limit"_a, "warm_up_ns"_a)
        .def("copy", [](const Twin &twin) { return Twin(twin); })
        .def("reset", &Twin::reset, "seeds"_a, "mask"_a)
        .def("set_rules", &Twin::set_rules, "rules"_a, "mask"_a)
        .def("set_weights", &Twin::set_weights, "weights"_a, "mask"_a)
        .def("set_in_service", &Twin::set_in_service, "flags"_a, "mask"_a)
        .def("advance", &Twin::advance, "until_ns"_a)
        .def("drain", &Twin::drain, "until_ns"_a, "mask"_a)
        .def("hold_flows", &Twin::hold_flows, "most"_a, "mask"_a)
        .def("assign", &Twin::assign, "servers"_a, "mask"_a)
        .def("read", &Twin::read, "sampled"_a)
        .def("records", &Twin::records, "env"_a)
        .def("under_way", &Twin::under_way, "env"_a)
        .def("summary", &Twin::summary, "env"_a)
        .def("region", &Twin::region, "env"_a, "frontend"_a);
}
