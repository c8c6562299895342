// SPDX-License-Identifier: Apache-2.0
// From queue to queue: what a packet meets between two hosts.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

// What the kernel counts a packet of a socket for.
uint64_t truesize(const Packet &packet) {
    return skb_bytes + uint64_t{packet.bytes} - uint64_t{packet.count} * tcp_header_bytes;
}

} // namespace

// The first packet on a port's wire has reached the other end.
void Simulation::arrive(uint32_t number) {
    Port &port = ports_[number];
    port.settle(now_ns_);
    const PortConfig &config = port.config();
    if (config.frees_early)
        free_departed(number);
    if (port.arrival_ns() > now_ns_)
        return look_again(number); // another has left the queue, or it is late by its jitter
    const Packet &packet = port.take();
    tree_.set(number, port.has_packets() ? port.next_ns(now_ns_) : never);
    packet_hops_++;
    // The first switch takes the packet from the socket that it was counted for.
    const bool is_freed =
        number >= n_switch_ports() && packet.kind == Kind::data && !config.frees_early;
    if (is_freed)
        flows_[packet.flow].sender.queued_bytes -= truesize(packet);
    const uint32_t slot = packet.flow;
    if (!port.is_up() || is_lost(port.loss_after()) || is_lost(config.loss)) {
        port.count_loss();
        forget(packet);
    } else if (config.peer_is_host) {
        receive_at_host(packet);
    } else {
        receive_at_switch(packet, config.peer);
    }
    if (is_freed && flows_[slot].sender.is_throttled) {
        flows_[slot].sender.is_throttled = false;
        write(slot);
    }
}

// Tells sockets what has left a host's queue for a wire that holds it: what delays packets there
// takes them from their sockets at once, as a TUN device does (tun_net_xmit).
void Simulation::free_departed(uint32_t number) {
    while (const Packet *packet = ports_[number].free_next()) {
        if (packet->kind != Kind::data)
            continue;
        const uint32_t slot = packet->flow;
        flows_[slot].sender.queued_bytes -= truesize(*packet);
        if (flows_[slot].sender.is_throttled) {
            flows_[slot].sender.is_throttled = false;
            write(slot);
        }
    }
}

bool Simulation::is_lost(uint32_t probability) {
    return probability != 0 && static_cast<uint32_t>(random_.next() >> 32) <= probability;
}

void Simulation::receive_at_switch(const Packet &packet, uint32_t node) {
    const uint32_t number = next_port(packet, node);
    if (number == no_port)
        return forget(packet);
    enter(number, packet);
}

// Marks, segments and queues a packet; false where nothing of it was queued.
bool Simulation::enter(uint32_t number, const Packet &packet) {
    Port &port = ports_[number];
    if (!port.is_up() || is_lost(port.loss_before())) {
        port.count_loss();
        forget(packet);
        return false;
    }
    port.settle(now_ns_);
    const uint8_t flags = port.meet(packet, now_ns_, random_);
    if (config_.counts_matrix && number < n_switch_ports() &&
        port.backlog_bytes() + packet.bytes <= port.config().queue_bytes) {
        const Flow &flow = flows_[packet.flow];
        const uint32_t source = packet.is_forward() ? flow.src : flow.dst;
        matrix_[size_t{number} * config_.n_hosts + source] += packet.bytes;
    }
    if (packet.bytes <= port.packet_bytes()) {
        push(number, packet, flags);
        return true;
    }
    // tbf hands segments of their own to its queue.
    const uint32_t segments = packet.count,
                   header = packet.kind == Kind::data ? tcp_header_bytes : udp_header_bytes;
    uint32_t left = packet.bytes - segments * header;
    const uint32_t most = config_.frame_bytes - header;
    flows_[packet.flow].in_network += segments - 1;
    if (number >= n_switch_ports() && packet.kind == Kind::data)
        flows_[packet.flow].sender.queued_bytes += (segments - 1) * skb_bytes;
    Packet part = packet;
    part.count = 1;
    for (uint32_t i = 0; i < segments; i++) {
        const uint32_t payload = std::min(left, most);
        left -= payload;
        part.bytes = payload + header;
        if (packet.kind == Kind::datagram)
            part.b = payload;
        push(number, part, flags);
        part.seq += packet.kind == Kind::data ? 1 : 0;
    }
    return true;
}

void Simulation::push(uint32_t number, const Packet &packet, uint8_t flags) {
    Port &port = ports_[number];
    if (port.enqueue(packet, flags, now_ns_) == Port::Fate::dropped) {
        if (number >= n_switch_ports() && packet.kind == Kind::data)
            flows_[packet.flow].sender.queued_bytes -= truesize(packet);
        return forget(packet);
    }
    look_again(number);
}

// The port's next arrival may be another than the tree knows.
void Simulation::look_again(uint32_t number) {
    const int64_t at_ns = ports_[number].has_packets() ? ports_[number].next_ns(now_ns_) : never;
    if (tree_.time_of(number) != at_ns)
        tree_.set(number, at_ns);
}

void Simulation::set_port_up(uint32_t port, bool is_up) {
    ports_[port].set_up(is_up, now_ns_, [this, port](const Packet &packet) {
        if (port >= n_switch_ports() && packet.kind == Kind::data)
            flows_[packet.flow].sender.queued_bytes -= truesize(packet);
        forget(packet);
    });
    look_again(port);
}

void Simulation::forget(const Packet &packet) {
    if (packet.kind == Kind::ack)
        free_notes_.push_back(packet.b);
    Flow &flow = flows_[packet.flow];
    flow.in_network--;
    if (flow.stage == Flow::Stage::ended)
        give_back(packet.flow);
}

bool Simulation::transmit(uint32_t host, const Packet &packet) {
    flows_[packet.flow].in_network++;
    return enter(n_switch_ports() + host, packet);
}

uint32_t Simulation::next_port(const Packet &packet, uint32_t node) {
    Flow &flow = flows_[packet.flow];
    const uint32_t way = packet.is_forward() ? 0 : 1;
    const uint32_t number = routes_[size_t{node} * config_.n_hosts + (way ? flow.src : flow.dst)];
    if (number == no_group)
        return no_port;
    Group &group = groups_[number];
    if (!group.has_choice())
        return group.ports()[0];
    if (config_.path_rule == DCGYM_PATH_SPRAY)
        return group.draw(&path_random_);
    if (config_.path_rule == DCGYM_PATH_DRILL)
        return group.drill(&path_random_, [this](uint32_t port) {
            ports_[port].settle(now_ns_);
            return ports_[port].is_up() ? ports_[port].backlog_bytes() : DCGYM_NO_QUEUE;
        });
    const bool begins = packet.kind == Kind::syn || packet.kind == Kind::syn_ack;
    return pinned_port(flow.paths[way], flow.keys[way], node, group, begins);
}

// As pinned_member of bpf/fabric/flow.h. Where flows are not pinned, pins are what their hashes
// gave, until the tables change.
uint32_t Simulation::pinned_port(Path &path, const FlowKey &key, uint32_t node, const Group &group,
                                 bool begins) {
    if (path.tables_version != tables_version_ && !config_.pins_flows)
        path.pins.clear();
    path.tables_version = tables_version_;
    Pin *pin = path.find(node);
    const auto now_ns = static_cast<uint64_t>(now_ns_);
    const auto gap_ns = static_cast<uint64_t>(config_.flowlet_gap_ns);
    switch (dcgym_choose_for_flow(pin && !begins && is_member(*pin, group), now_ns,
                                  pin ? static_cast<uint64_t>(pin->last_ns) : 0, gap_ns)) {
    case DCGYM_FLOW_KEPT:
        break;
    case DCGYM_FLOW_DRAWN:
        pin->port = group.draw(&path_random_);
        break;
    case DCGYM_FLOW_HASHED:
        if (!pin)
            pin = &path.pins.emplace_back(Pin{.node = node});
        pin->port = group.choose(key);
        pin->routes_version = routes_version_;
    }
    pin->last_ns = now_ns_;
    return pin->port;
}

bool Simulation::is_member(Pin &pin, const Group &group) const {
    if (pin.routes_version == routes_version_)
        return true;
    const std::vector<uint32_t> &ports = group.ports();
    pin.routes_version = routes_version_;
    return std::find(ports.begin(), ports.end(), pin.port) != ports.end();
}

std::vector<uint32_t> Simulation::path(uint32_t src, uint32_t dst, uint32_t ports, bool is_udp,
                                       uint32_t label) const {
    const auto address = [](uint32_t host) { return __builtin_bswap32(0x0a000000U + host + 1); };
    const FlowKey key{address(src), address(dst), ports, is_udp ? 17U : 6U, label};
    std::vector<uint32_t> found;
    uint32_t node = config_.ports[n_switch_ports() + src].peer;
    while (found.size() < 64) {
        const uint32_t group = routes_[size_t{node} * config_.n_hosts + dst];
        if (group == no_group)
            break;
        const uint32_t number = groups_[group].choose(key);
        found.push_back(number);
        if (config_.ports[number].peer_is_host)
            break;
        node = config_.ports[number].peer;
    }
    return found;
}

// Loses or marks a packet of data where the script says so; else it is received.
void Simulation::follow_script(uint32_t slot, Packet packet) {
    for (ScriptedSegment &next : script_) {
        if (next.flow != flows_[slot].id || next.times == 0 || next.segment < packet.seq ||
            next.segment >= packet.seq + packet.count)
            continue;
        next.times--;
        if (!next.is_marked)
            return;
        packet.flags |= congestion_experienced;
        break;
    }
    on_data(slot, packet);
}

void Simulation::receive_at_host(const Packet &packet) {
    const uint32_t slot = packet.flow;
    Flow &flow = flows_[slot];
    flow.in_network--;
    if (packet.kind == Kind::ack)
        free_notes_.push_back(packet.b);
    if (flow.stage == Flow::Stage::ended)
        return give_back(slot);
    switch (packet.kind) {
    case Kind::data:
        return script_.empty() ? on_data(slot, packet) : follow_script(slot, packet);
    case Kind::ack:
        return on_ack(slot, packet);
    case Kind::datagram:
        return udp_receive(slot, packet);
    case Kind::syn: {
        Packet answer{};
        answer.flow = slot;
        answer.bytes = syn_bytes;
        answer.kind = Kind::syn_ack;
        answer.flags = packet.flags & ecn_capable;
        answer.a = stamp_ms();
        flow.syn_ack_ns = now_ns_;
        transmit(flow.dst, answer);
        return;
    }
    case Kind::syn_ack:
        return connected(slot, packet);
    case Kind::handshake_ack:
        // A SYN that came twice measures nothing.
        if (flow.syns == 1)
            flow.receiver.handshake_rtt_us =
                static_cast<uint32_t>((now_ns_ - flow.syn_ack_ns) / 125);
        return;
    }
}

} // namespace dcgym::twin::packets
