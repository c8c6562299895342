// SPDX-License-Identifier: Apache-2.0
// Where a switch sends a packet: the groups, alias tables and hash of the BPF switch.
#pragma once

#include <cstdint>
#include <vector>

namespace dcgym::twin::packets {

// What the hash of bpf/fabric/flow.h reads of a packet, as the words that it reads.
struct FlowKey {
    uint32_t source = 0; // addresses and ports in network byte order
    uint32_t destination = 0;
    uint32_t ports = 0;
    uint32_t protocol = 0;
};

uint32_t hash_flow(const FlowKey &key, uint32_t salt);

struct GroupSlot {
    uint32_t port;
    uint32_t alias;
    uint32_t threshold; // of 2^32
};

// Equal-cost next hops and their weights, as Vose's alias table.
class Group {
  public:
    Group() = default;
    Group(uint32_t salt, std::vector<uint32_t> ports) : salt_(salt), ports_(std::move(ports)) {
        set_weights(std::vector<double>(ports_.size(), 1.0).data());
    }
    // One weight a port, 0 or more; all 0 count as equal.
    void set_weights(const double *weights);
    uint32_t choose(const FlowKey &key) const;
    // The member of a uniform draw of 32 bits.
    uint32_t pick(uint32_t draw) const {
        const uint64_t product = static_cast<uint64_t>(draw) * slots_.size();
        const GroupSlot &slot = slots_[product >> 32];
        return static_cast<uint32_t>(product) < slot.threshold ? slot.port : slot.alias;
    }
    bool has_choice() const { return slots_.size() > 1; }
    const std::vector<uint32_t> &ports() const { return ports_; }

  private:
    uint32_t salt_ = 0;
    std::vector<uint32_t> ports_;
    std::vector<GroupSlot> slots_;
};

} // namespace dcgym::twin::packets
