// SPDX-License-Identifier: Apache-2.0
// The congestion controls as Python sees them.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "congestion.hpp"
#include "dctcp.h"
#include "new_vegas.h"
#include "window_control.h"

namespace py = pybind11;

namespace {

using dcgym::CongestionControl;

py::list windows_of(const dcgym_dctcp_trace &trace) {
    py::list result;
    const uint32_t kept = std::min<uint32_t>(trace.n_windows, DCGYM_TRACE_WINDOWS);
    for (uint32_t i = trace.n_windows - kept; i < trace.n_windows; i++) {
        const dcgym_dctcp_window &window = trace.windows[i % DCGYM_TRACE_WINDOWS];
        result.append(py::make_tuple(window.delivered_packets, window.marked_packets, window.alpha,
                                     window.cwnd_packets));
    }
    return result;
}

py::list reductions_of(const dcgym_dctcp_trace &trace) {
    py::list result;
    const uint32_t kept = std::min<uint32_t>(trace.n_reductions, DCGYM_TRACE_REDUCTIONS);
    for (uint32_t i = trace.n_reductions - kept; i < trace.n_reductions; i++) {
        const dcgym_dctcp_reduction &entry = trace.reductions[i % DCGYM_TRACE_REDUCTIONS];
        result.append(
            py::make_tuple(entry.window, entry.alpha, entry.cwnd_packets, entry.ssthresh_packets));
    }
    return result;
}

py::dict describe(const dcgym_dctcp_trace &trace) {
    py::dict result;
    result["n_windows"] = trace.n_windows;
    result["n_reductions"] = trace.n_reductions;
    result["windows"] = windows_of(trace);
    result["reductions"] = reductions_of(trace);
    return result;
}

py::dict describe(const dcgym_nv_decision &decision) {
    constexpr std::array<const char *, 3> kinds = {"increase", "decrease", "loss"};
    py::dict result;
    result["kind"] = kinds.at(decision.kind);
    result["time_ns"] = decision.time_ns;
    result["rate_bytes_per_s"] = decision.rate_bytes_per_s;
    result["min_rtt_us"] = decision.min_rtt_us;
    result["mss_bytes"] = decision.mss_bytes;
    result["samples"] = decision.samples;
    result["cwnd"] = decision.cwnd_packets;
    result["wanted"] = decision.wanted_packets;
    result["new_cwnd"] = decision.new_cwnd_packets;
    result["ssthresh"] = decision.ssthresh_packets;
    result["least_cwnd"] = decision.least_cwnd_packets;
    result["delivered"] = decision.delivered_packets;
    result["acked"] = decision.acked_packets;
    return result;
}

py::dict describe(const dcgym_nv_trace &trace) {
    py::list decisions;
    const uint64_t kept = std::min<uint64_t>(trace.n_decisions, DCGYM_NV_TRACE_DECISIONS);
    for (uint64_t i = 0; i < kept; i++)
        decisions.append(describe(trace.decisions[i]));
    py::dict result;
    result["n_decisions"] = trace.n_decisions;
    result["decisions"] = decisions;
    return result;
}

py::dict describe(const dcgym_cc_traced &entry) {
    constexpr std::array<const char *, 4> events = {"ack", "loss", "timeout", "undo"};
    py::dict result;
    result["event"] = events.at(entry.event);
    result["now_us"] = entry.ack.now_us;
    result["rtt_us"] = entry.ack.rtt_us;
    result["srtt_us"] = entry.ack.srtt_us;
    result["acked"] = entry.ack.acked_packets;
    result["base_rtt_us"] = entry.ack.base_rtt_us;
    result["packet_ns"] = entry.ack.packet_ns;
    result["una_seq"] = entry.ack.una_seq;
    result["nxt_seq"] = entry.ack.nxt_seq;
    result["mss_bytes"] = entry.ack.mss_bytes;
    result["is_limited"] = entry.ack.is_limited != 0;
    result["cwnd"] = entry.decision.cwnd_packets;
    result["pacing_bytes_per_s"] = entry.decision.pacing_bytes_per_s;
    return result;
}

py::dict describe(const dcgym_cc_trace &trace) {
    py::list events;
    const uint64_t kept = std::min<uint64_t>(trace.n_events, DCGYM_CC_TRACE_EVENTS);
    for (uint64_t i = 0; i < kept; i++)
        events.append(describe(trace.events[i]));
    py::dict result;
    result["n_events"] = trace.n_events;
    result["events"] = events;
    return result;
}

template <typename Trace> py::dict decode(const std::string &bytes) {
    Trace trace{};
    std::memcpy(&trace, bytes.data(), sizeof(trace));
    return describe(trace);
}

py::object trace_of(const CongestionControl &control, int socket_fd) {
    const auto bytes = control.trace(socket_fd);
    if (!bytes)
        return py::none();
    if (bytes->size() == sizeof(dcgym_dctcp_trace))
        return decode<dcgym_dctcp_trace>(*bytes);
    if (bytes->size() == sizeof(dcgym_cc_trace))
        return decode<dcgym_cc_trace>(*bytes);
    return decode<dcgym_nv_trace>(*bytes);
}

dcgym_plb_limits find_relabelling(const std::string &name) {
    if (name.empty())
        return {};
    if (name == "plb")
        return DCGYM_PLB_LIMITS;
    if (name == "flowbender")
        return DCGYM_FLOWBENDER_LIMITS;
    dcgym::throw_config_error("relabelling", name, "plb, flowbender or empty");
}

} // namespace

void bind_congestion(py::module_ &module) {
    module.attr("ALPHA_ONE") = DCGYM_ALPHA_ONE;
    py::class_<CongestionControl>(module, "CongestionControl",
                                  "A TCP congestion control that this process keeps registered.")
        .def_property_readonly("name", &CongestionControl::name)
        .def("trace", &trace_of, py::arg("socket_fd"),
             "What the algorithm recorded for a socket, as its header describes it; None "
             "where it was not traced.")
        .def("map_fd", &CongestionControl::map_descriptor, py::arg("map"),
             "Descriptor of one of its maps, which stays its own.")
        .def("close", &CongestionControl::close, "Unregister the algorithm; idempotent.")
        .def("__enter__", [](const py::object &self) { return self; })
        .def("__exit__", [](CongestionControl &self, const py::args &) { self.close(); });
    module.def(
        "load_congestion_control",
        [](const std::string &object_path, const std::string &name, bool tracing,
           uint32_t base_rtt_us, uint32_t packet_ns, const std::string &relabelling,
           int label_map_fd) {
            return std::make_unique<CongestionControl>(
                object_path, name,
                dcgym_cc_options{base_rtt_us, packet_ns, tracing, find_relabelling(relabelling)},
                label_map_fd);
        },
        py::arg("object_path"), py::arg("name"), py::arg("tracing") = false,
        py::arg("base_rtt_us") = 0, py::arg("packet_ns") = 0, py::arg("relabelling") = "",
        py::arg("label_map_fd") = -1,
        "Register the algorithm of a BPF object under a name of at most 15 characters. The times "
        "are those of struct dcgym_cc_options. With relabelling \"plb\" or \"flowbender\" dctcp "
        "moves flows from congested paths and tells the fabric by its map of labels.");
}
