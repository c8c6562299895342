// SPDX-License-Identifier: Apache-2.0
#include "flow_agent.hpp"

#include <bpf/bpf.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "common/bpf_object.hpp"
#include "common/clock.hpp"
#include "sequence_lock.hpp"

namespace dcgym {
namespace {

constexpr uint64_t deadline_ns = 1'000'000'000;

// The kernel's __u64 is another type of the same size.
uint64_t &word_of(const __u64 &word) {
    return *reinterpret_cast<uint64_t *>(const_cast<__u64 *>(&word));
}

uint64_t load(const __u64 &word, std::memory_order order) {
    return std::atomic_ref<uint64_t>(word_of(word)).load(order);
}

// Whether no write came between.
bool copy_whole(const dcgym_agent_flow &from, dcgym_agent_flow &to) {
    const uint64_t sequence = load(from.sequence, std::memory_order_acquire);
    if (sequence & 1)
        return false;
    std::memcpy(&to, &from, sizeof(to));
    std::atomic_thread_fence(std::memory_order_acquire);
    return load(from.sequence, std::memory_order_relaxed) == sequence;
}

} // namespace

FlowAgent::FlowAgent(AgentMaps maps)
    : maps_(maps), flows_(maps.flows, sizeof(dcgym_agent_flow) * DCGYM_AGENT_SLOTS, true),
      commands_(maps.commands, sizeof(dcgym_agent_command) * DCGYM_AGENT_SLOTS, true),
      controls_(maps.controls, sizeof(dcgym_agent_control), true) {}

void FlowAgent::clear() {
    auto *flows = reinterpret_cast<dcgym_agent_flow *>(flows_.data());
    uint32_t slot = 0;
    while (bpf_map_lookup_and_delete_elem(maps_.free_slots, nullptr, &slot) == 0)
        continue;
    for (uint32_t i = 0; i < DCGYM_AGENT_SLOTS; i++) {
        const SequenceWrite write(word_of(flows[i].sequence));
        flows[i].state = DCGYM_AGENT_FREE;
        // Whoever still had it takes another one.
        flows[i].generation++;
    }
    for (uint32_t i = DCGYM_AGENT_SLOTS; i > 0; i--) {
        slot = i - 1;
        check(bpf_map_update_elem(maps_.free_slots, nullptr, &slot, BPF_ANY),
              "cannot free the slots of flows");
    }
    renew(0);
}

std::vector<dcgym_agent_flow> FlowAgent::read() const {
    const auto *flows = reinterpret_cast<const dcgym_agent_flow *>(flows_.data());
    std::vector<dcgym_agent_flow> result;
    dcgym_agent_flow copy;
    for (size_t i = 0; i < DCGYM_AGENT_SLOTS; i++) {
        uint64_t until_ns = 0;
        while (!copy_whole(flows[i], copy)) {
            // The writer may have lost its processor, to this reader even.
            sched_yield();
            if (until_ns == 0)
                until_ns = monotonic_ns() + deadline_ns;
            else if (monotonic_ns() > until_ns)
                throw_backend_error("a flow's counters stay half written", ETIMEDOUT);
        }
        if (copy.state == DCGYM_AGENT_FREE)
            break;
        result.push_back(copy);
    }
    return result;
}

size_t FlowAgent::write(const std::vector<uint32_t> &slots,
                        const std::vector<dcgym_agent_command> &commands) {
    auto *kept = reinterpret_cast<dcgym_agent_command *>(commands_.data());
    size_t unknown = 0;
    for (size_t i = 0; i < slots.size(); i++) {
        if (slots[i] >= DCGYM_AGENT_SLOTS) {
            unknown++;
            continue;
        }
        dcgym_agent_command &command = kept[slots[i]];
        const SequenceWrite write(word_of(command.sequence));
        command.pacing_bytes_per_s = commands[i].pacing_bytes_per_s;
        command.generation = commands[i].generation;
        command.flags = commands[i].flags;
        command.multiplier_q16 = commands[i].multiplier_q16;
        command.cwnd_packets = commands[i].cwnd_packets;
    }
    return unknown;
}

void FlowAgent::renew(uint64_t lease_us) {
    auto *control = reinterpret_cast<dcgym_agent_control *>(controls_.data());
    std::atomic_ref<uint64_t>(word_of(control->lease_us))
        .store(lease_us, std::memory_order_release);
}

dcgym_agent_control FlowAgent::control() const {
    dcgym_agent_control copy;
    std::memcpy(&copy, controls_.data(), sizeof(copy));
    return copy;
}

} // namespace dcgym
