// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <cstddef>
#include <vector>

#include "generator.h"
#include "http.h"

namespace dcgym {
namespace {

struct Field {
    const char *name;
    std::size_t offset_bytes;
    std::size_t size_bytes;
};

std::string struct_json(const char *name, std::size_t size, const std::vector<Field> &fields) {
    std::string out = "\"" + std::string{name} + "\": {\"size\": " + std::to_string(size);
    out += ", \"fields\": {";
    for (const Field &field : fields) {
        if (&field != &fields.front())
            out += ", ";
        out += "\"" + std::string{field.name} + "\": [" + std::to_string(field.offset_bytes) +
               ", " + std::to_string(field.size_bytes) + "]";
    }
    return out + "}}";
}

} // namespace

#define FIELD(type, name)                                                                          \
    Field {                                                                                        \
#name, offsetof(type, name), sizeof(type::name)                                            \
    }

std::vector<std::string> http_layout() {
    using Server = dcgym_http_server;
    using Header = dcgym_http_header;
    using Stage = dcgym_http_stage;
    using Request = dcgym_http_request;
    using Result = dcgym_http_result;
    return {
        struct_json("http_server", sizeof(Server),
                    {FIELD(Server, busy), FIELD(Server, waiting), FIELD(Server, later),
                     FIELD(Server, workers_busy), FIELD(Server, workers), FIELD(Server, sequence),
                     FIELD(Server, accepted), FIELD(Server, completed), FIELD(Server, rejected),
                     FIELD(Server, heartbeat_ns), FIELD(Server, mean_service_ns),
                     FIELD(Server, busy_ns)}),
        struct_json("http_header", sizeof(Header),
                    {FIELD(Header, magic), FIELD(Header, version), FIELD(Header, n_requests),
                     FIELD(Header, n_stages), FIELD(Header, heartbeat_ns), FIELD(Header, start_ns),
                     FIELD(Header, started), FIELD(Header, late_starts), FIELD(Header, active),
                     FIELD(Header, ended), FIELD(Header, message_answers),
                     FIELD(Header, idle_messages), FIELD(Header, messages_lost),
                     FIELD(Header, unknown_messages)}),
        struct_json("http_stage", sizeof(Stage),
                    {FIELD(Stage, duration_ns), FIELD(Stage, resource), FIELD(Stage, reserved)}),
        struct_json("http_request", sizeof(Request),
                    {FIELD(Request, start_ns), FIELD(Request, client), FIELD(Request, target),
                     FIELD(Request, application), FIELD(Request, n_stages),
                     FIELD(Request, first_stage), FIELD(Request, bytes)}),
        struct_json("http_result", sizeof(Result),
                    {FIELD(Result, start_ns), FIELD(Result, established_ns),
                     FIELD(Result, first_byte_ns), FIELD(Result, end_ns), FIELD(Result, bytes),
                     FIELD(Result, server), FIELD(Result, outcome), FIELD(Result, status),
                     FIELD(Result, reserved)}),
    };
}

std::string layout_json() {
    using Header = dcgym_generator_header;
    using Host = dcgym_generator_host;
    using Probe = dcgym_generator_probe;
    using Record = dcgym_generator_record;
    using Flow = dcgym_generator_flow;
    std::vector<std::string> structs{
        struct_json("header", sizeof(Header),
                    {FIELD(Header, magic), FIELD(Header, version), FIELD(Header, n_hosts),
                     FIELD(Header, n_probes), FIELD(Header, record_capacity),
                     FIELD(Header, sequence), FIELD(Header, heartbeat_ns), FIELD(Header, sample_ns),
                     FIELD(Header, start_ns), FIELD(Header, flows_planned),
                     FIELD(Header, flows_active), FIELD(Header, flows_finished),
                     FIELD(Header, finished), FIELD(Header, starts), FIELD(Header, late_starts),
                     FIELD(Header, udp_period_ns), FIELD(Header, record_count),
                     FIELD(Header, record_base), FIELD(Header, sample_due_ns)}),
        struct_json("host", sizeof(Host),
                    {FIELD(Host, tx_bytes), FIELD(Host, rx_bytes), FIELD(Host, retransmits),
                     FIELD(Host, srtt_ns), FIELD(Host, min_rtt_ns), FIELD(Host, rtt_sum_ns),
                     FIELD(Host, rtt_samples), FIELD(Host, active_flows)}),
        struct_json("probe", sizeof(Probe),
                    {FIELD(Probe, src), FIELD(Probe, dst), FIELD(Probe, sent),
                     FIELD(Probe, answered), FIELD(Probe, rtt_ns), FIELD(Probe, rtt_sum_ns),
                     FIELD(Probe, waiting_ns)}),
        struct_json("record", sizeof(Record),
                    {FIELD(Record, sequence), FIELD(Record, id), FIELD(Record, repetition),
                     FIELD(Record, src), FIELD(Record, dst), FIELD(Record, transport),
                     FIELD(Record, outcome), FIELD(Record, planned_start_ns),
                     FIELD(Record, start_ns), FIELD(Record, end_ns), FIELD(Record, bytes),
                     FIELD(Record, srtt_ns), FIELD(Record, min_rtt_ns), FIELD(Record, retransmits),
                     FIELD(Record, out_of_order), FIELD(Record, reorderings),
                     FIELD(Record, spurious_retransmits)}),
        struct_json("flow", sizeof(Flow),
                    {FIELD(Flow, src), FIELD(Flow, dst), FIELD(Flow, transport), FIELD(Flow, port),
                     FIELD(Flow, start_ns), FIELD(Flow, size_bytes), FIELD(Flow, duration_ns),
                     FIELD(Flow, rate_bps), FIELD(Flow, repetitions), FIELD(Flow, gap_ns),
                     FIELD(Flow, after), FIELD(Flow, group)}),
    };
    for (const std::string &one : http_layout())
        structs.push_back(one);
    std::string out = "{\"magic\": " + std::to_string(DCGYM_GENERATOR_MAGIC) +
                      ", \"version\": " + std::to_string(DCGYM_GENERATOR_VERSION);
    for (const std::string &one : structs)
        out += ", " + one;
    return out + "}";
}

#undef FIELD

} // namespace dcgym
