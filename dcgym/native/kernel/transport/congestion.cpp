// SPDX-License-Identifier: Apache-2.0
#include "congestion.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "dctcp.h"
#include "new_vegas.h"

namespace py = pybind11;

namespace dcgym {
namespace {

// Linux 6.4; absent from the headers of Debian 12.
constexpr uint32_t map_flag_link = 1U << 13;
constexpr auto attach_struct_ops = static_cast<bpf_attach_type>(44);
// A trace is told by its size.
static_assert(sizeof(dcgym_dctcp_trace) != sizeof(dcgym_nv_trace));

void check_name(const std::string &name) {
    const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
    if (name.empty() || name.size() >= DCGYM_CC_NAME_BYTES ||
        !std::all_of(name.begin(), name.end(), allowed))
        throw_config_error("name", name, "1 to 15 letters, digits, '_' or '-'");
}

// libbpf 1.1 cannot set a member of a struct_ops value, so the compiled bytes are patched.
void patch_name(std::string &bytes, const std::string &name, const std::string &path) {
    std::string placeholder = DCGYM_CC_PLACEHOLDER, replacement = name;
    placeholder.resize(DCGYM_CC_NAME_BYTES);
    replacement.resize(DCGYM_CC_NAME_BYTES);
    const size_t at = bytes.find(placeholder);
    if (at == std::string::npos || bytes.find(placeholder, at + 1) != std::string::npos)
        throw_backend_error("the BPF object " + path + " is not ours", EINVAL);
    bytes.replace(at, placeholder.size(), replacement);
}

bpf_map *struct_ops_map(bpf_object *object) {
    bpf_map *map = nullptr;
    bpf_object__for_each_map(map, object) {
        if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
            return map;
    }
    throw_backend_error("the BPF object holds no congestion control", EINVAL);
}

void set_tracing(bpf_object *object, bool tracing) {
    bpf_map *rodata = bpf_object__find_map_by_name(object, ".rodata");
    check(bpf_map__set_initial_value(rodata, &tracing, sizeof(tracing)), "cannot set tracing");
}

} // namespace

CongestionControl::CongestionControl(const std::string &object_path, const std::string &name,
                                     bool tracing)
    : name_(name) {
    check_name(name);
    std::string bytes = read_object(object_path);
    patch_name(bytes, name, object_path);
    object_ = open_object(bytes, object_path);
    set_tracing(object_.get(), tracing);
    bpf_map *map = struct_ops_map(object_.get());
    check(bpf_map__set_map_flags(map, map_flag_link), "cannot set BPF_F_LINK");
    check(bpf_object__load(object_.get()), "cannot load the BPF object " + object_path);
    // With BPF_F_LINK this only stores the value; the link below registers it.
    prepared_.reset(bpf_map__attach_struct_ops(map));
    if (!prepared_)
        throw_backend_error("cannot prepare congestion control " + name, errno);
    link_fd_.reset(check(bpf_link_create(bpf_map__fd(map), 0, attach_struct_ops, nullptr),
                         "cannot register congestion control " + name));
}

std::optional<std::string> CongestionControl::trace(int socket_fd) const {
    if (!object_)
        throw_backend_error("the congestion control is closed", EBADF);
    const bpf_map *map = bpf_object__find_map_by_name(object_.get(), "traces");
    std::string bytes(bpf_map__value_size(map), '\0');
    const int result = bpf_map_lookup_elem(bpf_map__fd(map), &socket_fd, bytes.data());
    if (result == -ENOENT)
        return std::nullopt;
    check(result, "cannot read the trace of a socket");
    return bytes;
}

void CongestionControl::close() {
    link_fd_.reset();
    prepared_.reset();
    object_.reset();
}

} // namespace dcgym

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
    return decode<dcgym_nv_trace>(*bytes);
}

} // namespace

void bind_congestion(py::module_ &module) {
    module.attr("ALPHA_ONE") = DCGYM_ALPHA_ONE;
    py::class_<CongestionControl>(module, "CongestionControl",
                                  "A TCP congestion control that this process keeps registered.")
        .def_property_readonly("name", &CongestionControl::name)
        .def("trace", &trace_of, py::arg("socket_fd"),
             "What the algorithm recorded for a socket, as dctcp.h or new_vegas.h describe it; "
             "None where it was not traced.")
        .def("close", &CongestionControl::close, "Unregister the algorithm; idempotent.")
        .def("__enter__", [](const py::object &self) { return self; })
        .def("__exit__", [](CongestionControl &self, const py::args &) { self.close(); });
    module.def(
        "load_congestion_control",
        [](const std::string &object_path, const std::string &name, bool tracing) {
            return std::make_unique<CongestionControl>(object_path, name, tracing);
        },
        py::arg("object_path"), py::arg("name"), py::arg("tracing") = false,
        "Register the algorithm of a BPF object under a name of at most 15 characters.");
}
