// SPDX-License-Identifier: Apache-2.0
// The thread that sends a balancer's probes: what the data plane asks for in its ring buffer goes
// out as UDP datagrams of the balancer's own address. Answers are the data plane's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/bpf_object.hpp"
#include "l4lb.h"

struct ring_buffer;

namespace dcgym {

// Who sends or receives probes.
struct ProbeEnd {
    std::string mac;
    std::string address; // IPv4
};

class ProbeSender {
  public:
    // The descriptor of the ring buffer is not kept. Servers are MACs and addresses by number.
    ProbeSender(int probe_map_fd, uint32_t ifindex, const ProbeEnd &from,
                const std::map<uint32_t, std::pair<std::string, std::string>> &servers);
    ~ProbeSender() { close(); }
    ProbeSender(const ProbeSender &) = delete;
    ProbeSender &operator=(const ProbeSender &) = delete;

    // Ends the thread; idempotent.
    void close();

  private:
    static constexpr size_t header_bytes = 14 + 20 + 8; // Ethernet, IPv4 without options, UDP

    struct Frame {
        std::array<uint8_t, header_bytes + sizeof(dcgym_message)> bytes;
        bool is_server = false;
    };
    struct RingDeleter {
        void operator()(ring_buffer *ring) const;
    };

    static Frame frame_to(const ProbeEnd &from, const ProbeEnd &to);
    static int take(void *sender, void *data, size_t bytes);
    void send(const dcgym_lb_probe &probe) const;
    void loop() const;

    std::array<Frame, DCGYM_LB_SERVERS> frames_;
    std::unique_ptr<ring_buffer, RingDeleter> ring_;
    Descriptor socket_, ended_;
    std::thread thread_;
};

} // namespace dcgym
