// SPDX-License-Identifier: Apache-2.0
// Python face of the compiled twins. It checks nothing that dcgym.backends.simulation has checked.
#include <pybind11/pybind11.h>

#include "python_signals.hpp"

namespace py = pybind11;

void bind_layout(py::module_ &module);
void bind_twin(py::module_ &module);
void bind_informed(py::module_ &module);
void bind_rules(py::module_ &module);
void bind_station(py::module_ &module);
void bind_accelerators(py::module_ &module);

PYBIND11_MODULE(_simulation, module) {
    module.doc() = "Compiled twins of dcgym.";
    dcgym::translate_ends();
    bind_layout(module);
    bind_twin(module);
    bind_informed(module);
    bind_rules(module);
    bind_station(module);
    bind_accelerators(module);
}
