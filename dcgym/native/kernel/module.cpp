// SPDX-License-Identifier: Apache-2.0
// Python face of the native parts, one file a concern. Every call that may wait releases the
// interpreter lock.
#include <pybind11/pybind11.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "python_signals.hpp"

namespace py = pybind11;

void bind_process(py::module_ &module);
void bind_rates(py::module_ &module);
void bind_links(py::module_ &module);
void bind_builder(py::module_ &module);
void bind_ping(py::module_ &module);
void bind_telemetry(py::module_ &module);
void bind_queues(py::module_ &module);
void bind_groups(py::module_ &module);
void bind_fabric(py::module_ &module);
void bind_balancer_pools(py::module_ &module);
void bind_balancer_devices(py::module_ &module);
void bind_balancer(py::module_ &module);
void bind_probe_sender(py::module_ &module);
void bind_load_reporter(py::module_ &module);
void bind_congestion(py::module_ &module);
void bind_flow_agent(py::module_ &module);
void bind_link_delay(py::module_ &module);

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native parts of dcgym: namespaces, traffic control, telemetry, BPF.";
    py::register_exception_translator([](std::exception_ptr problem) {
        try {
            if (problem)
                std::rethrow_exception(problem);
        } catch (const std::system_error &error) {
            errno = error.code().value();
            PyErr_SetObject(PyExc_OSError,
                            py::make_tuple(error.code().value(), error.what()).ptr());
        }
    });
    dcgym::translate_ends();
    bind_process(module);
    bind_rates(module);
    bind_links(module);
    bind_builder(module);
    bind_ping(module);
    bind_telemetry(module);
    bind_queues(module);
    bind_groups(module);
    bind_fabric(module);
    bind_balancer_pools(module);
    bind_balancer_devices(module);
    bind_balancer(module);
    bind_probe_sender(module);
    bind_load_reporter(module);
    bind_congestion(module);
    bind_flow_agent(module);
    bind_link_delay(module);
}
