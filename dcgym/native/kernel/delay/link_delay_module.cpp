// SPDX-License-Identifier: Apache-2.0
// Link delay as the emulator sees it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <memory>

#include "link_delay.h"
#include "link_delay.hpp"

namespace py = pybind11;

namespace {

using dcgym::LinkDelay;

int join_link(const LinkDelay &delay, int namespace_fd, int ifindex, const std::string &tap,
              uint32_t queue_packets, bool keeps_gso) {
    const py::gil_scoped_release released;
    return delay.join({namespace_fd, ifindex, tap, queue_packets, keeps_gso});
}

// Name, offset and size of each field, for the test of the NumPy views.
py::dict link_delay_layout() {
    py::list header, link;
#define HEADER(name)                                                                               \
    header.append(py::make_tuple(#name, offsetof(dcgym_delay_header, name),                        \
                                 sizeof(dcgym_delay_header::name)))
    HEADER(magic);
    HEADER(version);
    HEADER(n_links);
    HEADER(heartbeat_ns);
    HEADER(late_packets);
    HEADER(late_sum_ns);
    HEADER(late_max_ns);
    HEADER(late_histogram);
#undef HEADER
#define LINK(name)                                                                                 \
    link.append(                                                                                   \
        py::make_tuple(#name, offsetof(dcgym_delay_link, name), sizeof(dcgym_delay_link::name)))
    LINK(packets);
    LINK(bytes);
    LINK(delivered);
    LINK(lost);
    LINK(overflow);
    LINK(rejected);
    LINK(held);
    LINK(held_bytes);
    LINK(held_bytes_max);
#undef LINK
    py::dict result;
    result["header"] = header;
    result["link"] = link;
    return result;
}

} // namespace

void bind_link_delay(py::module_ &module) {
    module.def("link_delay_layout", &link_delay_layout);
    module.def("transmit_drops", &dcgym::transmit_drops, py::arg("namespace_fd"),
               py::call_guard<py::gil_scoped_release>(),
               "Packets that each interface of a namespace dropped instead of sending, by name.");
    py::class_<LinkDelay>(module, "LinkDelay", "Takes arriving packets to TAPs, and back.")
        .def(py::init<const std::string &>(), py::arg("object_path"))
        .def("join", &join_link, py::arg("namespace_fd"), py::arg("ifindex"), py::arg("tap"),
             py::arg("queue_packets"), py::arg("keeps_gso"),
             "Make the TAP of an interface and attach the programs; returns its descriptor, which "
             "the caller owns.");
}
