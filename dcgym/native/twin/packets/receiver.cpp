// SPDX-License-Identifier: Apache-2.0
#include "receiver.hpp"

#include <algorithm>

#include "sender.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t read_bytes = 16 * 1024;          // SO_RCVLOWAT of the traffic generator
constexpr uint64_t most_buffer_bytes = 32ULL << 20; // sysctl tcp_rmem
constexpr uint32_t window_step = 1 << 10;           // its scale follows from that

uint32_t covered(const std::vector<Block> &blocks, uint32_t begin, uint32_t end) {
    uint32_t sum = 0;
    for (const Block &block : blocks)
        if (before(block.begin, end) && after(block.end, begin))
            sum += std::min(block.end - begin, end - begin) -
                   (after(block.begin, begin) ? block.begin - begin : 0);
    return sum;
}

} // namespace

// As tcp_select_initial_window: half of the buffer, in whole segments.
ReceiveWindow::ReceiveWindow(uint32_t mss_bytes) : mss_bytes_(mss_bytes) {
    threshold_bytes_ = room_bytes_ = offered_bytes_ = first_window(mss_bytes) * mss_bytes;
    space_bytes_ = std::min(first_cwnd * mss_bytes, threshold_bytes_);
}

bool ReceiveWindow::take(uint32_t segments, uint32_t in_order, uint32_t out_of_order,
                         int64_t now_ns) {
    const uint32_t payload = segments * mss_bytes_, truesize = payload + skb_bytes;
    if (segments != segments_) {
        segments_ = static_cast<uint16_t>(segments);
        ratio_ = static_cast<uint16_t>((payload << 8) / truesize);
    }
    unread_ += in_order;
    unread_bytes_ += uint64_t{in_order} * truesize / segments;
    const uint64_t waiting_bytes = uint64_t{out_of_order} * truesize / segments;
    const uint32_t space = free_bytes(waiting_bytes);
    const bool grows = space > threshold_bytes_;
    if (grows)
        threshold_bytes_ += std::min(space - threshold_bytes_, 2 * payload);
    if (unread_ * mss_bytes_ >= read_bytes)
        read(now_ns);
    room_bytes_ = std::min(free_bytes(waiting_bytes), threshold_bytes_);
    return grows;
}

uint32_t ReceiveWindow::offer(uint32_t segments) {
    const uint32_t used = segments * mss_bytes_;
    const uint32_t left = offered_bytes_ > used ? offered_bytes_ - used : 0;
    offered_bytes_ = (std::max(room_bytes_, left) + window_step - 1) / window_step * window_step;
    return offered_bytes_ / mss_bytes_;
}

void ReceiveWindow::measure(uint32_t echoed_ms, uint32_t now_ms) {
    if (echoed_ms == last_echo_ms_)
        return;
    last_echo_ms_ = echoed_ms;
    const uint32_t sample_us = (now_ms - echoed_ms) * 1000;
    if (sample_us == 0)
        return;
    if (rtt_us_ == 0 || sample_us << 3 < rtt_us_)
        rtt_us_ = sample_us << 3;
    // While packets wait to be read, a long round trip may be the reader's fault.
    else if (unread_ == 0)
        rtt_us_ += sample_us - (rtt_us_ >> 3);
}

// Twice what was read in the last round trip, and more where that grows.
void ReceiveWindow::read(int64_t now_ns) {
    copied_ += uint64_t{unread_} * mss_bytes_;
    unread_ = 0;
    unread_bytes_ = 0;
    if (rtt_us_ == 0 || now_ns - measured_ns_ < int64_t{1000} * (rtt_us_ >> 3))
        return;
    const uint64_t bytes = copied_ - copied_before_;
    if (bytes > space_bytes_) {
        uint64_t window = 2 * bytes;
        window += 2 * (window * (bytes - space_bytes_) / space_bytes_);
        space_bytes_ = bytes;
        buffer_bytes_ =
            std::max(buffer_bytes_, std::min<uint64_t>((window << 8) / ratio_, most_buffer_bytes));
    }
    copied_before_ = copied_;
    measured_ns_ = now_ns;
}

uint32_t Receiver::take(uint32_t begin, uint32_t end) {
    if (!after(end, rcv_nxt))
        return 0;
    if (before(begin, rcv_nxt))
        begin = rcv_nxt;
    if (begin == rcv_nxt && blocks.empty()) {
        rcv_nxt = end;
        return end - begin;
    }
    const uint32_t fresh = end - begin - covered(blocks, begin, end);
    if (fresh == 0)
        duplicate = {begin, end};
    Block merged{begin, end};
    // Whatever touches it becomes one with it.
    auto at = blocks.begin();
    while (at != blocks.end() && before(at->end, begin))
        ++at;
    auto last = at;
    for (; last != blocks.end() && !after(last->begin, end); ++last) {
        merged.begin = before(last->begin, merged.begin) ? last->begin : merged.begin;
        merged.end = after(last->end, merged.end) ? last->end : merged.end;
    }
    if (merged.begin == rcv_nxt) {
        rcv_nxt = merged.end;
        blocks.erase(at, last);
        remember({rcv_nxt, rcv_nxt});
        return fresh;
    } else if (at == last) {
        blocks.insert(at, merged);
    } else {
        *at = merged;
        blocks.erase(at + 1, last);
    }
    remember(merged);
    return fresh;
}

bool Receiver::is_apart(uint32_t begin, uint32_t end) const {
    return after(begin, rcv_nxt) &&
           std::none_of(recent, recent + recents, [begin, end](const Block &block) {
               return !after(block.begin, end) && !before(block.end, begin);
           });
}

// Puts a block before those that it does not hold; one that has been passed vanishes.
void Receiver::remember(Block block) {
    Block kept[most_recent];
    uint32_t count = 0;
    if (block.begin != block.end)
        kept[count++] = block;
    for (uint32_t i = 0; i < recents && count < most_recent; i++) {
        const bool is_held =
            !before(recent[i].begin, block.begin) && !after(recent[i].end, block.end);
        if (!is_held && after(recent[i].end, rcv_nxt))
            kept[count++] = recent[i];
    }
    std::copy_n(kept, count, recent);
    recents = count;
}

} // namespace dcgym::twin::packets
