// SPDX-License-Identifier: Apache-2.0
// Where a switch sends a packet: the groups, alias tables, hash and rules of the BPF switch.
#pragma once

#include <cstdint>
#include <vector>

#include "path_rules.h"

namespace dcgym::twin::packets {

// What the hash of bpf/fabric/flow.h reads of a packet, as the words that it reads.
struct FlowKey {
    uint32_t source = 0; // addresses and ports in network byte order
    uint32_t destination = 0;
    uint32_t ports = 0;
    uint32_t protocol = 0;
    uint32_t label = 0; // that the sender gives it; 0: none, as in the BPF switch
};

// The label changes the hash's seed, as the salt of a switch does.
uint32_t hash_flow(const FlowKey &key, uint32_t salt);

// Equal-cost next hops and their weights, as Vose's alias table.
class Group {
  public:
    Group() = default;
    Group(uint32_t salt, std::vector<uint32_t> ports) : salt_(salt), ports_(std::move(ports)) {
        set_weights(std::vector<double>(ports_.size(), 1.0).data());
    }
    // One weight a port, 0 or more; all 0 count as equal. What DRILL remembers is forgotten.
    void set_weights(const double *weights);
    uint32_t choose(const FlowKey &key) const;
    // The member of a uniform draw of 32 bits.
    uint32_t pick(uint32_t draw) const {
        const uint64_t product = dcgym_slot_draw(draw, size());
        return dcgym_port_of(&slots_[product >> 32], static_cast<uint32_t>(product));
    }
    // The member of a draw; with a rule for each flow, that of a new flowlet.
    uint32_t draw(uint64_t *random) const {
        return pick(static_cast<uint32_t>(dcgym_random(word(random)) >> 32));
    }
    // The member whose queue is the shortest of two at random and of the last one taken;
    // queue_bytes(port) tells how long one is.
    template <typename Queue> uint32_t drill(uint64_t *random, Queue &&queue_bytes) {
        const dcgym_drill_samples samples = dcgym_drill_sample(word(random), size());
        const uint32_t found[DCGYM_DRILL_QUEUES] = {
            dcgym_port_of(&slots_[samples.slots[0]], samples.within[0]),
            dcgym_port_of(&slots_[samples.slots[1]], samples.within[1]), remembered_};
        __u64 lengths[DCGYM_DRILL_QUEUES];
        for (uint32_t i = 0; i < DCGYM_DRILL_QUEUES; i++)
            lengths[i] = found[i] == no_member ? DCGYM_NO_QUEUE : queue_bytes(found[i]);
        return remembered_ = found[dcgym_drill_shortest(lengths)];
    }
    bool has_choice() const { return slots_.size() > 1; }
    const std::vector<uint32_t> &ports() const { return ports_; }

  private:
    static constexpr uint32_t no_member = 0xffffffff;

    uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
    // The kernel's type of 64 bits is another one to C++.
    static __u64 *word(uint64_t *random) { return reinterpret_cast<__u64 *>(random); }

    uint32_t salt_ = 0;
    uint32_t remembered_ = no_member;
    std::vector<uint32_t> ports_;
    std::vector<dcgym_group_slot> slots_; // port numbers in the place of interfaces
};

} // namespace dcgym::twin::packets
