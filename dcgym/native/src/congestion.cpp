// SPDX-License-Identifier: Apache-2.0
#include "congestion.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace py = pybind11;

namespace dcgym {
namespace {

// Linux 6.4; absent from the headers of Debian 12.
constexpr uint32_t map_flag_link = 1U << 13;
constexpr auto attach_struct_ops = static_cast<bpf_attach_type>(44);

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
	return bpf_object__find_map_by_name(object, "dctcp_ops");
}

void set_tracing(bpf_object *object, bool tracing) {
	bpf_map *rodata = bpf_object__find_map_by_name(object, ".rodata");
	check(bpf_map__set_initial_value(rodata, &tracing, sizeof(tracing)), "cannot set tracing");
}

} // namespace

void Descriptor::reset(int value) {
	if (value_ >= 0)
		::close(value_);
	value_ = value;
}

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

std::optional<dcgym_dctcp_trace> CongestionControl::trace(int socket_fd) const {
	if (!object_)
		throw_backend_error("the congestion control is closed", EBADF);
	const int map = bpf_object__find_map_fd_by_name(object_.get(), "traces");
	dcgym_dctcp_trace trace{};
	const int result = bpf_map_lookup_elem(map, &socket_fd, &trace);
	if (result == -ENOENT)
		return std::nullopt;
	check(result, "cannot read the trace of a socket");
	return trace;
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
		result.append(py::make_tuple(entry.window, entry.alpha, entry.cwnd_packets,
					     entry.ssthresh_packets));
	}
	return result;
}

py::object trace_of(const CongestionControl &control, int socket_fd) {
	const auto trace = control.trace(socket_fd);
	if (!trace)
		return py::none();
	py::dict result;
	result["n_windows"] = trace->n_windows;
	result["n_reductions"] = trace->n_reductions;
	result["windows"] = windows_of(*trace);
	result["reductions"] = reductions_of(*trace);
	return result;
}

} // namespace

void bind_congestion(py::module_ &module) {
	module.attr("ALPHA_ONE") = DCGYM_ALPHA_ONE;
	py::class_<CongestionControl>(module, "CongestionControl",
				      "A TCP congestion control that this process keeps registered.")
		.def_property_readonly("name", &CongestionControl::name)
		.def_property_readonly("link_fd", &CongestionControl::link_fd,
				       "Descriptor whose copies keep the algorithm registered.")
		.def("trace", &trace_of, py::arg("socket_fd"),
		     "Windows (delivered, marked, alpha, cwnd) and reductions (window, alpha, cwnd, "
		     "ssthresh) of a socket; None where it was not traced.")
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
