// SPDX-License-Identifier: Apache-2.0
// Processes, namespaces and clocks as Python sees them.
#include <pybind11/pybind11.h>
#include <sys/prctl.h>

#include <cerrno>

#include "clock.hpp"
#include "lifetime.hpp"
#include "namespaces.hpp"

namespace py = pybind11;
using namespace dcgym;

namespace {

// Sleeps to an absolute CLOCK_MONOTONIC time; returns how late it woke, in ns.
int64_t wait_until(uint64_t deadline_ns) {
    const timespec deadline{static_cast<time_t>(deadline_ns / 1'000'000'000),
                            static_cast<long>(deadline_ns % 1'000'000'000)};
    // The kernel may delay a wake-up by 50 us to join it with others (timer_slack); not this one.
    prctl(PR_SET_TIMERSLACK, 1UL);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0)
            throw py::error_already_set();
    }
    prctl(PR_SET_TIMERSLACK, 0UL); // the thread's default again
    return static_cast<int64_t>(monotonic_ns() - deadline_ns);
}

} // namespace

void bind_process(py::module_ &module) {
    module.def("unshare_namespaces", &unshare_namespaces);
    module.def("mount_private", &mount_private);
    module.def("die_with_parent", &die_with_parent);
    module.def("watch_owner", &watch_owner, py::arg("channel_fd"), py::arg("owner_pidfd"));
    module.def("write_sysctl", &write_sysctl, py::arg("namespace_fd"), py::arg("path"),
               py::arg("value"), py::call_guard<py::gil_scoped_release>());
    module.def("open_udp", &open_udp, py::arg("namespace_fd"));
    module.def("wait_until", &wait_until, py::arg("deadline_ns"),
               py::call_guard<py::gil_scoped_release>());
    module.def("monotonic_ns", &monotonic_ns);
}
