// SPDX-License-Identifier: Apache-2.0
// The agent's end of dcgym_agent as Python sees it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>

#include "flow_agent.hpp"

namespace py = pybind11;

namespace {

using dcgym::FlowAgent;

template <typename Value>
using Column = py::array_t<Value, py::array::c_style | py::array::forcecast>;

py::bytes read_flows(const FlowAgent &agent) {
    const std::vector<dcgym_agent_flow> flows = agent.read();
    return {reinterpret_cast<const char *>(flows.data()), flows.size() * sizeof(dcgym_agent_flow)};
}

size_t write_commands(FlowAgent &agent, const Column<uint32_t> &slots,
                      const Column<uint32_t> &generations, const Column<uint32_t> &flags,
                      const Column<uint32_t> &multipliers, const Column<uint32_t> &windows,
                      const Column<uint64_t> &rates) {
    const auto count = static_cast<size_t>(slots.size());
    for (const py::ssize_t size :
         {generations.size(), flags.size(), multipliers.size(), windows.size(), rates.size()})
        if (size != slots.size())
            throw py::value_error("commands have columns of unequal lengths");
    std::vector<dcgym_agent_command> commands(count);
    for (size_t i = 0; i < count; i++)
        commands[i] = {.sequence = 0,
                       .pacing_bytes_per_s = rates.data()[i],
                       .generation = generations.data()[i],
                       .flags = flags.data()[i],
                       .multiplier_q16 = multipliers.data()[i],
                       .cwnd_packets = windows.data()[i]};
    return agent.write({slots.data(), slots.data() + count}, commands);
}

py::dict counters(const FlowAgent &agent) {
    const dcgym_agent_control control = agent.control();
    py::dict result;
    result["lease_us"] = control.lease_us;
    result["n_flows"] = control.n_flows;
    result["n_without"] = control.n_without;
    return result;
}

// Name, offset and size of each field of struct dcgym_agent_flow, for the test of the NumPy view.
py::list layout() {
    py::list fields;
#define FIELD(name)                                                                                \
    fields.append(                                                                                 \
        py::make_tuple(#name, offsetof(dcgym_agent_flow, name), sizeof(dcgym_agent_flow::name)))
    FIELD(sequence);
    FIELD(updated_us);
    FIELD(rtt_sum_us);
    FIELD(pacing_bytes_per_s);
    FIELD(taken);
    FIELD(taken_us);
    FIELD(generation);
    FIELD(state);
    FIELD(src_address);
    FIELD(dst_address);
    FIELD(src_port);
    FIELD(dst_port);
    FIELD(sent_packets);
    FIELD(delivered_packets);
    FIELD(lost_packets);
    FIELD(marked_packets);
    FIELD(rtts);
    FIELD(rtt_us);
    FIELD(srtt_us);
    FIELD(min_rtt_us);
    FIELD(cwnd_packets);
    FIELD(in_flight_packets);
    FIELD(mss_bytes);
    FIELD(flags);
    FIELD(clamped);
    FIELD(fallbacks);
#undef FIELD
    return fields;
}

} // namespace

void bind_flow_agent(py::module_ &module) {
    module.def("agent_flow_layout", &layout);
    py::class_<FlowAgent>(module, "FlowAgent", "Reads and steers the flows of dcgym_agent.")
        .def(py::init([](int flows, int commands, int controls, int free_slots) {
                 return std::make_unique<FlowAgent>(
                     dcgym::AgentMaps{flows, commands, controls, free_slots});
             }),
             py::arg("flows"), py::arg("commands"), py::arg("controls"), py::arg("free_slots"))
        .def("clear", &FlowAgent::clear, "Give every slot back, while no flow is open.")
        .def("read", &read_flows,
             "Whole copies of all slots that were used (struct dcgym_agent_flow).")
        .def("write", &write_commands, py::arg("slots"), py::arg("generations"), py::arg("flags"),
             py::arg("multipliers_q16"), py::arg("cwnds"), py::arg("rates"),
             "Write a command to each slot; returns how many of the slots do not exist.")
        .def("renew", &FlowAgent::renew, py::arg("lease_us"),
             "Let commands hold until then, CLOCK_MONOTONIC in us.")
        .def("counters", &counters);
}
