// SPDX-License-Identifier: Apache-2.0
// Python face of the packet twin. It checks nothing that dcgym.backends.simulation has checked.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <numeric>
#include <stdexcept>

#include "batch.hpp"
#include "core/column.hpp"
#include "python_signals.hpp"
#include "window_control.h"

namespace py = pybind11;
using namespace py::literals;
using namespace dcgym;
using namespace dcgym::twin;
using namespace dcgym::twin::packets;

namespace {

using Rates = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;
using Weights = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Times = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Words = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>;
using Mask = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;

uint32_t find_path_rule(const std::string &name) {
    constexpr const char *names[] = {
#define DCGYM_ROW(symbol, name, ...) name,
#include "tables/path_rules.h"
    };
    for (uint32_t rule = 0; rule < DCGYM_PATH_RULES; rule++)
        if (name == names[rule])
            return rule;
    throw std::invalid_argument("no path rule " + name);
}

py::tuple as_tuple(const dcgym_plb_limits &limits) {
    return py::make_tuple(limits.marked_share, limits.rounds, limits.idle_rounds,
                          limits.suspend_ns);
}

dcgym_plb_limits read_limits(const std::tuple<uint32_t, uint32_t, uint32_t, uint64_t> &limits) {
    const auto [share, rounds, idle_rounds, suspend_ns] = limits;
    return {share, rounds, idle_rounds, suspend_ns};
}

// What a group of a switch would choose for packets in a row, while its queues stay as they are.
std::vector<uint32_t> choose_paths(const std::string &rule, const std::vector<double> &weights,
                                   const std::vector<uint64_t> &queue_bytes, uint64_t seed,
                                   size_t count) {
    const uint32_t number = find_path_rule(rule);
    std::vector<uint32_t> ports(weights.size()), chosen;
    std::iota(ports.begin(), ports.end(), 0);
    Group group(0, ports);
    group.set_weights(weights.data());
    while (chosen.size() < count)
        chosen.push_back(number == DCGYM_PATH_DRILL
                             ? group.drill(&seed, [&](uint32_t port) { return queue_bytes[port]; })
                             : group.draw(&seed));
    return chosen;
}

// Round trips of a flow, each (delivered, marked, whether nothing is under way, time in ns): after
// which of them it moves.
std::vector<bool>
trace_plb(const std::tuple<uint32_t, uint32_t, uint32_t, uint64_t> &limits,
          const std::vector<std::tuple<uint32_t, uint32_t, bool, uint64_t>> &rounds) {
    const dcgym_plb_limits read = read_limits(limits);
    dcgym_plb plb{};
    std::vector<bool> moves;
    for (const auto &[delivered, marked, is_idle, now_ns] : rounds) {
        dcgym_plb_round(&plb, &read, delivered, marked);
        moves.push_back(dcgym_plb_moves(&plb, &read, is_idle, now_ns) != 0);
    }
    return moves;
}

NetworkConfig read_network(const py::dict &content) {
    NetworkConfig config;
    config.n_switches = content["n_switches"].cast<uint32_t>();
    config.n_hosts = content["n_hosts"].cast<uint32_t>();
    config.frame_bytes = content["frame_bytes"].cast<uint32_t>();
    using Row =
        std::tuple<uint64_t, uint64_t, int64_t, uint32_t, bool, int64_t, uint32_t, bool, bool>;
    for (const auto &[rate_bps, queue_bytes, delay_ns, peer, peer_is_host, jitter_ns, loss,
                      is_relayed, frees_early] : content["ports"].cast<std::vector<Row>>())
        config.ports.push_back({rate_bps, queue_bytes, delay_ns, peer, config.frame_bytes,
                                jitter_ns, loss, peer_is_host, is_relayed, frees_early});
    config.port_switch = content["port_switch"].cast<std::vector<uint32_t>>();
    config.counts_matrix = content["counts_matrix"].cast<bool>();
    config.pins_flows = content["pins_flows"].cast<bool>();
    config.path_rule = find_path_rule(content["path_rule"].cast<std::string>());
    config.flowlet_gap_ns = content["flowlet_gap_ns"].cast<int64_t>();
    config.plb =
        read_limits(content["plb"].cast<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>>());
    config.timer_late_ns = content["timer_late_ns"].cast<int64_t>();
    config.base_rtt_us = content["base_rtt_us"].cast<uint32_t>();
    config.packet_ns = content["packet_ns"].cast<uint32_t>();
    return config;
}

Batch make_batch(const py::dict &config, const std::tuple<size_t, Starts, Starts> &row, size_t size,
                 size_t threads, std::vector<uint32_t> opposite,
                 const std::vector<std::pair<uint32_t, uint32_t>> &choices, uint32_t n_weights) {
    std::vector<Choice> read;
    for (const auto &[group, first] : choices)
        read.push_back({group, first});
    return {read_network(config),
            std::make_from_tuple<StateRow>(row),
            size,
            threads,
            std::move(opposite),
            std::move(read),
            n_weights};
}

EpisodeConfig read_episode(const py::dict &content) {
    EpisodeConfig episode;
    episode.seed = content["seed"].cast<uint64_t>();
    episode.start_ns = content["start_ns"].cast<int64_t>();
    const auto flows = content["flows"].cast<py::bytes>();
    const std::string_view bytes = flows;
    episode.flows.resize(bytes.size() / sizeof(PlannedFlow));
    if (!episode.flows.empty())
        std::memcpy(episode.flows.data(), bytes.data(), bytes.size());
    episode.congestion_control = content["congestion_control"].cast<std::vector<std::string>>();
    using Rule = std::tuple<uint64_t, uint64_t, uint32_t, uint32_t, uint32_t>;
    for (const auto &[low, high, probability, weight, packet_ns] :
         content["marking"].cast<std::vector<Rule>>())
        episode.marking.push_back({low, high, probability, weight, packet_ns});
    episode.group_ports = content["group_ports"].cast<std::vector<std::vector<uint32_t>>>();
    episode.group_salts = content["group_salts"].cast<std::vector<uint32_t>>();
    const auto routes = content["routes"].cast<Words>();
    episode.routes.assign(routes.data(), routes.data() + routes.size());
    return episode;
}

py::bytes records(const Simulation &simulation) {
    const auto &rows = simulation.records();
    return {reinterpret_cast<const char *>(rows.data()), rows.size() * sizeof(FlowRecord)};
}

// Of all networks: a row of words each, zeros outside the mask.
py::array_t<uint64_t> states(Batch &batch, const Mask &mask) {
    Column<uint64_t> words({batch.size(), batch.row_words()});
    std::fill_n(words.data, words.array.size(), 0);
    batch.read(mask.data(), words.data);
    return words.array;
}

py::array_t<double> matrix(const Batch &batch) {
    const Simulation &first = batch.network(0);
    Column<double> out({batch.size(), first.n_switch_ports(), first.config().n_hosts});
    double *row = out.data;
    for (size_t i = 0; i < batch.size(); i++) {
        const auto &counts = batch.network(i).matrix();
        row = std::copy(counts.begin(), counts.end(), row);
    }
    return out.array;
}

template <typename Value, typename Ask> py::array_t<Value> of_each(const Batch &batch, Ask &&ask) {
    Column<Value> out({batch.size()});
    for (size_t i = 0; i < batch.size(); i++)
        out.data[i] = ask(batch.network(i));
    return out.array;
}

// Of each network the first flows of its plan, one struct dcgym_agent_flow each.
py::bytes flows(const Batch &batch, uint32_t count) {
    std::vector<dcgym_agent_flow> rows(batch.size() * count);
    batch.read_flows(rows.data(), count);
    return {reinterpret_cast<const char *>(rows.data()), rows.size() * sizeof(dcgym_agent_flow)};
}

// What runs the intervals of a batch for native code, and keeps the batch.
struct Runner : dcgym_interval_runner {
    py::object batch;
};

py::capsule make_runner(const py::object &self) {
    auto &batch = self.cast<Batch &>();
    const auto run = [](void *of, const int64_t *until_ns, int64_t *now_ns, uint64_t *words,
                        bool *finished, const dcgym_interval_sink *sink) {
        static_cast<Batch *>(of)->run(until_ns, now_ns, words, finished, *sink, ask_python);
    };
    auto *runner = new Runner{{&batch, batch.size(), batch.row_words(), run}, self};
    const auto drop = [](PyObject *capsule) {
        void *kept = PyCapsule_GetPointer(capsule, DCGYM_INTERVAL_RUNNER);
        delete static_cast<Runner *>(static_cast<dcgym_interval_runner *>(kept));
    };
    return py::capsule(static_cast<dcgym_interval_runner *>(runner), DCGYM_INTERVAL_RUNNER, drop);
}

// A row a network, a column a flow.
void command_flows(Batch &batch, const Words &generations, const Words &flags,
                   const Words &multipliers, const Words &windows, const Rates &rates,
                   const Rates &lease_us, const Mask &mask) {
    const auto count = static_cast<size_t>(generations.size());
    std::vector<dcgym_agent_command> commands(count);
    for (size_t i = 0; i < count; i++)
        commands[i] = {.sequence = 0,
                       .pacing_bytes_per_s = rates.data()[i],
                       .generation = generations.data()[i],
                       .flags = flags.data()[i],
                       .multiplier_q16 = multipliers.data()[i],
                       .cwnd_packets = windows.data()[i]};
    batch.command_flows(commands.data(), static_cast<uint32_t>(count / batch.size()),
                        lease_us.data(), mask.data());
}

// State of a sender, for tests and traces.
py::object sender(const Simulation &simulation, uint32_t flow) {
    const Sender *found = simulation.sender_of(flow);
    if (found == nullptr)
        return py::none();
    return py::dict("cwnd"_a = found->snd_cwnd, "ssthresh"_a = found->snd_ssthresh,
                    "in_flight"_a = found->packets_in_flight(), "srtt_us"_a = found->srtt_us >> 3,
                    "state"_a = static_cast<int>(found->state), "delivered"_a = found->delivered,
                    "queued_bytes"_a = found->queued_bytes, "lost"_a = found->lost,
                    "pacing_bytes_per_s"_a = found->pacing_rate, "min_rtt_us"_a = found->min_rtt_us,
                    "relabellings"_a = found->plb.moves);
}

using Seen = std::tuple<uint32_t, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                        uint32_t, uint32_t, uint32_t, bool>;

// Window and rate that an algorithm answers to each of the recorded events.
std::vector<std::pair<uint32_t, uint64_t>> replay(const std::string &name,
                                                  const std::vector<Seen> &rows) {
    const CongestionOps *ops = find_congestion_control(name).ops;
    if (ops == nullptr || ops->replay == nullptr)
        throw py::value_error(name + " is no algorithm of window_control.h");
    std::vector<dcgym_cc_traced> events;
    for (const auto &[event, now_us, rtt_us, srtt_us, acked, base, packet_ns, una, nxt, mss,
                      limited] : rows)
        events.push_back(
            {.ack = {now_us, rtt_us, srtt_us, acked, base, packet_ns, una, nxt, mss, limited},
             .decision = {},
             .event = event,
             .reserved = 0});
    ops->replay(events.data(), events.size());
    std::vector<std::pair<uint32_t, uint64_t>> answers;
    for (const dcgym_cc_traced &each : events)
        answers.emplace_back(each.decision.cwnd_packets, each.decision.pacing_bytes_per_s);
    return answers;
}

} // namespace

PYBIND11_MODULE(_packets, module) {
    module.doc() = "The packet twin of dcgym.";
    translate_ends();
    constexpr dcgym_plb_limits plb = DCGYM_PLB_LIMITS, flowbender = DCGYM_FLOWBENDER_LIMITS;
    module.attr("PLB_LIMITS") = as_tuple(plb);
    module.attr("FLOWBENDER_LIMITS") = as_tuple(flowbender);
    module.def("choose_paths", &choose_paths, "rule"_a, "weights"_a, "queue_bytes"_a, "seed"_a,
               "count"_a);
    module.def("trace_plb", &trace_plb, "limits"_a, "rounds"_a);
    module.def("burst_for", &burst_for, "rate_bps"_a, "frame_bytes"_a);
    module.def("packet_for", &packet_for, "link_rate_bps"_a, "frame_bytes"_a);
    module.def("replay", &replay, "name"_a, "events"_a);
    module.def(
        "add_congestion_control",
        [](const std::string &name, uintptr_t functions) {
            add_congestion_control(name,
                                   *reinterpret_cast<const dcgym_control_functions *>(functions));
        },
        "name"_a, "functions"_a);
    // One network of a batch; the batch stays as long as it does.
    py::class_<Simulation>(module, "Network")
        .def(
            "reset",
            [](Simulation &simulation, const py::dict &episode) {
                simulation.reset(read_episode(episode));
            },
            "episode"_a)
        .def(
            "advance",
            [](Simulation &network, int64_t until_ns) {
                Interrupt call(ask_python);
                network.advance(until_ns, call);
            },
            "until_ns"_a, py::call_guard<py::gil_scoped_release>())
        .def("set_port_rate", &Simulation::set_port_rate, "port"_a, "rate_bps"_a)
        .def("set_port_up", &Simulation::set_port_up, "port"_a, "is_up"_a)
        .def("set_port_loss", &Simulation::set_port_loss, "port"_a, "before"_a, "after"_a)
        .def(
            "set_weights",
            [](Simulation &simulation, uint32_t group, const Weights &weights) {
                simulation.set_weights(group, weights.data());
            },
            "group"_a, "weights"_a)
        .def("add_group", &Simulation::add_group, "salt"_a, "ports"_a)
        .def("set_route", &Simulation::set_route, "switch"_a, "host"_a, "group"_a)
        .def("stop_traffic", &Simulation::stop_traffic)
        .def("send_at", &Simulation::send_at, "src"_a, "dst"_a, "payload_bytes"_a, "at_ns"_a)
        .def(
            "set_script",
            [](Simulation &simulation,
               const std::vector<std::tuple<uint32_t, uint32_t, uint32_t, bool>> &rows) {
                std::vector<ScriptedSegment> script;
                for (const auto &[flow, segment, times, is_marked] : rows)
                    script.push_back({flow, segment, times, is_marked});
                simulation.set_script(std::move(script));
            },
            "rows"_a)
        .def("records", &records)
        .def("sender", &sender, "flow"_a)
        .def("path", &Simulation::path, "src"_a, "dst"_a, "ports"_a, "is_udp"_a, "label"_a)
        .def("packets_in_network", &Simulation::packets_in_network)
        .def("packets_held", &Simulation::packets_held)
        .def("packet_hops", &Simulation::packet_hops);
    py::class_<Batch>(module, "PacketBatch")
        .def(py::init(&make_batch), "config"_a, "row"_a, "size"_a, "threads"_a, "opposite"_a,
             "choices"_a, "n_weights"_a)
        .def("copy", [](const Batch &batch) { return Batch(batch); })
        .def("network", py::overload_cast<size_t>(&Batch::network), "number"_a,
             py::return_value_policy::reference_internal)
        .def(
            "advance",
            [](Batch &batch, const Times &until) { batch.advance(until.data(), ask_python); },
            "until_ns"_a, py::call_guard<py::gil_scoped_release>())
        .def("runner", &make_runner)
        .def(
            "set_host_rates",
            [](Batch &batch, const Rates &rates, const Mask &mask) {
                batch.set_host_rates(rates.data(), mask.data());
            },
            "rates_bps"_a, "mask"_a)
        .def(
            "set_weights",
            [](Batch &batch, const Weights &weights, const Mask &mask) {
                batch.set_weights(weights.data(), mask.data());
            },
            "weights"_a, "mask"_a)
        .def("flows", &flows, "count"_a)
        .def("command_flows", &command_flows, "generations"_a, "flags"_a, "multipliers_q16"_a,
             "cwnds"_a, "rates"_a, "lease_us"_a, "mask"_a)
        .def("states", &states, "mask"_a)
        .def("matrix", &matrix)
        .def("now_ns",
             [](const Batch &batch) {
                 return of_each<int64_t>(batch, [](const auto &one) { return one.now_ns(); });
             })
        .def("finished", [](const Batch &batch) {
            return of_each<bool>(batch, [](const auto &one) { return one.is_finished(); });
        });
}
