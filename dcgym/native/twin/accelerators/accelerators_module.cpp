// SPDX-License-Identifier: Apache-2.0
// The twin of servers with accelerators; the choice of a device by itself, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "connection_cells.hpp"
#include "device_ring.h"
#include "twin.hpp"

namespace {

namespace py = pybind11;

using DeviceSlots = std::array<uint32_t, DCGYM_DEVICES>;
// Present, weight, load, queue, busy, time of the last report or -1.
using KnownDevice = std::tuple<bool, uint32_t, uint8_t, uint16_t, bool, int64_t>;

DeviceSlots slots_of(const std::vector<double> &weights, uint32_t limit) {
    std::array<double, DCGYM_DEVICES> weight{};
    std::copy_n(weights.begin(), std::min<size_t>(weights.size(), DCGYM_DEVICES), weight.begin());
    DeviceSlots slots{};
    dcgym_ring_slots(weight.data(), limit, slots.data());
    return slots;
}

std::vector<uint8_t> ring_of(const std::vector<double> &weights, uint32_t limit) {
    const DeviceSlots slots = slots_of(weights, std::min<uint32_t>(limit, DCGYM_RING_SLOTS));
    uint32_t total = 0;
    for (const uint32_t n : slots)
        total += n;
    std::vector<uint8_t> ring(total);
    dcgym_ring_fill(slots.data(), total, ring.data());
    return ring;
}

// The devices of `count` requests in a row; nothing is reported meanwhile.
std::vector<uint32_t> choose_devices(uint32_t rule, const std::vector<KnownDevice> &known,
                                     const std::vector<uint8_t> &ring, uint32_t threshold,
                                     uint64_t max_age_ns, uint64_t now_ns, uint64_t seed,
                                     size_t count) {
    std::array<dcgym_device, DCGYM_DEVICES> device{};
    DeviceSlots weights{};
    uint32_t is_there = 0;
    for (size_t i = 0; i < std::min<size_t>(known.size(), DCGYM_DEVICES); i++) {
        const auto &[present, weight, load, queue, busy, time_ns] = known[i];
        is_there |= static_cast<uint32_t>(present) << i;
        weights[i] = weight;
        device[i].load = load;
        device[i].queue = queue;
        device[i].is_busy = busy;
        device[i].reports = time_ns >= 0;
        device[i].time_ns = time_ns >= 0 ? static_cast<uint64_t>(time_ns) : 0;
    }
    std::array<uint8_t, 1 << DCGYM_DEVICES> by_bits{};
    dcgym_fill_by_bits(by_bits.data());
    std::vector<uint8_t> slot(ring);
    slot.resize(DCGYM_RING_SLOTS);
    const dcgym_device_view view{device.data(),
                                 weights.data(),
                                 by_bits.data(),
                                 slot.data(),
                                 static_cast<uint32_t>(std::min(ring.size(), slot.size())),
                                 threshold,
                                 is_there,
                                 max_age_ns,
                                 now_ns};
    dcgym_device_turns turns{};
    __u64 random = seed;
    std::vector<uint32_t> chosen;
    for (size_t i = 0; i < count; i++)
        chosen.push_back(dcgym_device_choose(rule, &view, &turns, &random));
    return chosen;
}

} // namespace

void bind_accelerators(pybind11::module_ &module) {
    using namespace py::literals;
    using dcgym::twin::accelerators::Record;
    using dcgym::twin::accelerators::Twin;
    PYBIND11_NUMPY_DTYPE(Record, arrival_ns, end_ns, request, application, server, device, outcome);
    py::class_<Twin>(module, "AcceleratorTwin")
        .def(py::init<const py::dict &, size_t, size_t>(), "config"_a, "n_envs"_a, "threads"_a)
        .def("copy", [](const Twin &twin) { return Twin(twin); })
        .def("reset", &Twin::reset, "seeds"_a, "rates"_a, "mask"_a)
        .def("set_rules", &Twin::set_rules, "server_rule"_a, "device_rule"_a, "mask"_a)
        .def("set_weights", &Twin::set_weights, "weights"_a, "mask"_a)
        .def("advance", &Twin::advance, "until_ns"_a)
        .def("read", &Twin::read, "mask"_a)
        .def("records", &Twin::records, "env"_a)
        .def("under_way", &Twin::under_way, "env"_a);
    module.attr("DEVICES") = DCGYM_DEVICES;
    module.attr("RING_SLOTS") = DCGYM_RING_SLOTS;
    module.def("crc16", &dcgym::twin::accelerators::crc16, "bytes"_a);
    module.def("device_ring", &ring_of, "weights"_a, "limit"_a);
    module.def("choose_devices", &choose_devices, "rule"_a, "known"_a, "ring"_a, "threshold"_a,
               "max_age_ns"_a, "now_ns"_a, "seed"_a, "count"_a);
}
