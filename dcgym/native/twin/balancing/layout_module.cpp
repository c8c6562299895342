// SPDX-License-Identifier: Apache-2.0
// The layout of balancing.h as readers check it, and a writer for tests of readers.
#include <pybind11/pybind11.h>

#include <cstddef>

#include "balancing.h"

namespace py = pybind11;

namespace {

// name -> (bytes, field -> offset)
py::dict balancing_layout() {
    py::dict structs;
#define STRUCT(type, ...)                                                                          \
    {                                                                                              \
        using Type = struct dcgym_##type;                                                          \
        py::dict offsets;                                                                          \
        __VA_ARGS__;                                                                               \
        structs[#type] = py::make_tuple(sizeof(Type), offsets);                                    \
    }
#define FIELD(field) offsets[#field] = offsetof(Type, field)
    STRUCT(sample, FIELD(time_ms); FIELD(value_us))
    STRUCT(reservoir, FIELD(samples))
    STRUCT(alias, FIELD(threshold); FIELD(other))
    STRUCT(lb_header, FIELD(magic); FIELD(version); FIELD(n_servers); FIELD(time_ns);
           FIELD(heartbeat_ns))
    STRUCT(lb_server, FIELD(packets); FIELD(flows); FIELD(completed); FIELD(ongoing))
    STRUCT(lb_snapshot, FIELD(sequence); FIELD(time_ns); FIELD(syns); FIELD(untracked);
           FIELD(timeouts); FIELD(active); FIELD(servers))
    STRUCT(lb_pool, FIELD(sequence); FIELD(time_ns); FIELD(rule); FIELD(n); FIELD(members);
           FIELD(server); FIELD(weight); FIELD(alias))
    STRUCT(lb_samples, FIELD(duration); FIELD(completion); FIELD(handshake))
    STRUCT(lb_region, FIELD(header); FIELD(snapshots); FIELD(pools); FIELD(interarrival);
           FIELD(samples))
#undef FIELD
#undef STRUCT
    using namespace py::literals;
    return py::dict("magic"_a = DCGYM_LB_MAGIC, "version"_a = DCGYM_LB_VERSION,
                    "structs"_a = structs);
}

// Publishes snapshots whose words all hold their sequence, as fast as it can, for a number of
// rounds.
void hammer(const py::buffer &buffer, uint64_t rounds) {
    const py::buffer_info info = buffer.request(true);
    if (static_cast<size_t>(info.size * info.itemsize) < sizeof(dcgym_lb_region))
        throw py::value_error("buffer: too small for a region");
    auto *region = static_cast<dcgym_lb_region *>(info.ptr);
    const py::gil_scoped_release released;
    for (uint64_t round = 0; round < rounds; round++) {
        const uint64_t sequence = dcgym_lb_open(region->snapshots, sizeof(dcgym_lb_snapshot));
        auto *words =
            reinterpret_cast<volatile uint64_t *>(&region->snapshots[sequence % DCGYM_LB_BUFFERS]);
        for (size_t i = 1; i < sizeof(dcgym_lb_snapshot) / sizeof(uint64_t); i++)
            words[i] = sequence;
        dcgym_lb_publish(region->snapshots, sizeof(dcgym_lb_snapshot), sequence);
    }
}

} // namespace

void bind_layout(py::module_ &module) {
    module.def("balancing_layout", &balancing_layout, "Sizes and offsets of balancing.h.");
    module.def("hammer", &hammer, py::arg("buffer"), py::arg("rounds"),
               "Publish snapshots into a region, for tests of readers.");
}
