// SPDX-License-Identifier: Apache-2.0
// Processes, namespaces and clocks as Python sees them.
#include <pybind11/pybind11.h>
#include <sys/prctl.h>

#include "clock.hpp"
#include "lifetime.hpp"
#include "namespaces.hpp"
#include "python_signals.hpp"

namespace py = pybind11;
using namespace dcgym;

namespace {

// Sleeps to an absolute CLOCK_MONOTONIC time; returns how late it woke, in ns. Signals are looked
// at on the way: one that comes before the sleep begins, or to another thread, does not end it.
int64_t wait_until(uint64_t deadline_ns) {
    // The kernel may delay a wake-up by 50 us to join it with others (timer_slack); not this one.
    prctl(PR_SET_TIMERSLACK, 1UL);
    constexpr uint64_t look_ns = 50'000'000;
    bool is_ended = false;
    for (uint64_t now_ns = monotonic_ns(); now_ns < deadline_ns; now_ns = monotonic_ns()) {
        // Not shortly before the deadline: to ask may take a while.
        const bool is_last = deadline_ns - now_ns < 2 * look_ns;
        const uint64_t end_ns = is_last ? deadline_ns : now_ns + look_ns;
        const timespec end{static_cast<time_t>(end_ns / 1'000'000'000),
                           static_cast<long>(end_ns % 1'000'000'000)};
        const bool is_over = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == 0;
        if (is_over && is_last)
            break;
        if (is_ended = ask_python(); is_ended)
            break;
    }
    prctl(PR_SET_TIMERSLACK, 0UL); // the thread's default again
    if (is_ended)
        throw Interrupted{};
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
