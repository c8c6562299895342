// SPDX-License-Identifier: Apache-2.0
#include "relay.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <system_error>

#include "frame.hpp"
#include "splitmix.h"

namespace dcgym::relay {
namespace {

// Packets of one TAP in a row, and deliveries in a row: the others wait meanwhile.
constexpr int kPacketsInARow = 64;
constexpr int kHeartbeatMs = 100;
constexpr std::uint64_t kTimer = UINT64_MAX, kControl = UINT64_MAX - 1;

[[noreturn]] void fail(const char *what) {
    throw std::system_error(errno, std::generic_category(), what);
}

std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void watch(int epoll_fd, int fd, std::uint32_t events, std::uint64_t number) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

// Evenly from 0 to most.
std::int64_t scale(std::uint64_t random, std::int64_t most) {
    const auto product = static_cast<unsigned __int128>(random) * (std::uint64_t(most) + 1);
    return static_cast<std::int64_t>(product >> 64);
}

} // namespace

Relay::Relay(Memory &memory, int control_fd)
    : memory_(memory), control_fd_(control_fd), buffer_(kMostFrameBytes) {
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_fd_ < 0 || timer_fd_ < 0)
        fail("cannot make the relay's timer");
    // Its expirations are never read.
    watch(epoll_fd_, timer_fd_, EPOLLIN | EPOLLET, kTimer);
    watch(epoll_fd_, control_fd_, EPOLLIN, kControl);
}

Relay::~Relay() {
    for (const Link &link : links_)
        close(link.fd);
    close(timer_fd_);
    close(epoll_fd_);
}

void Relay::add(const LinkConfig &config, int tap_fd) {
    if (links_.size() == memory_.capacity())
        throw std::invalid_argument("no room for another link in the shared memory");
    watch(epoll_fd_, tap_fd, EPOLLIN, links_.size());
    links_.emplace_back().config = config;
    links_.back().fd = tap_fd;
    memory_.link(links_.size() - 1) = {};
    memory_.header().n_links = links_.size();
}

std::uint64_t Relay::flush(std::size_t index) {
    Link &link = links_[index];
    dcgym_delay_link &counters = memory_.link(index);
    std::uint64_t dropped = link.held.size();
    link.held.clear();
    counters.held = counters.held_bytes = 0;
    while (read(link.fd, buffer_.data(), buffer_.size()) > 0)
        dropped++;
    return dropped;
}

std::uint64_t Relay::flush() {
    std::uint64_t dropped = 0;
    for (std::size_t index = 0; index < links_.size(); index++)
        dropped += flush(index);
    due_ = {};
    return dropped;
}

std::uint64_t Relay::begin(std::uint64_t seed) {
    const std::uint64_t dropped = flush();
    memory_.begin();
    seed_ = seed;
    for (Link &link : links_) {
        link.number = 0;
        link.is_up = true;
    }
    return dropped;
}

bool Relay::step() {
    std::array<epoll_event, 64> events;
    set_timer();
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(), kHeartbeatMs);
    if (count < 0 && errno != EINTR)
        fail("epoll_wait");
    bool has_request = false;
    for (int i = 0; i < count; i++) {
        const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
        has_request |= number == kControl;
        if (number < links_.size())
            receive(number);
    }
    deliver();
    memory_.header().heartbeat_ns = static_cast<std::uint64_t>(now());
    return has_request;
}

void Relay::receive(std::size_t index) {
    for (int i = 0; i < kPacketsInARow; i++) {
        const ssize_t got = read(links_[index].fd, buffer_.data(), buffer_.size());
        if (got <= 0) {
            // A TAP without its interface is always ready.
            if (got == 0 || (errno != EAGAIN && errno != EINTR))
                epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, links_[index].fd, nullptr);
            return;
        }
        const auto frame = take_stamp(buffer_.data(), static_cast<std::size_t>(got), now());
        // What the namespace's own stack sends at the TAP is nobody's.
        if (frame)
            hold(index, frame->data, frame->bytes, frame->arrival_ns);
    }
}

void Relay::hold(std::size_t index, const char *data, std::size_t bytes, std::int64_t arrival_ns) {
    Link &link = links_[index];
    const LinkConfig &config = link.config;
    dcgym_delay_link &counters = memory_.link(index);
    counters.packets++;
    counters.bytes += bytes;
    const std::uint64_t first = dcgym_hash(dcgym_hash(seed_, index), link.number++);
    if ((first >> 32) < config.loss) {
        counters.lost++;
        return;
    }
    const std::uint64_t cost = bytes + kPacketBytes;
    if (counters.held_bytes + cost > config.most_bytes) {
        counters.overflow++;
        return;
    }
    const std::int64_t jitter_ns = scale(dcgym_mix(first + 1), config.jitter_ns);
    // In order: a packet whose own delay is shorter leaves with the one before it.
    link.last_due_ns = std::max(link.last_due_ns, arrival_ns + config.delay_ns + jitter_ns);
    if (link.held.empty())
        due_.push({link.last_due_ns, index});
    Packet packet{link.last_due_ns, std::make_unique_for_overwrite<char[]>(bytes),
                  static_cast<std::uint32_t>(bytes)};
    std::memcpy(packet.data.get(), data, bytes);
    link.held.push_back(std::move(packet));
    counters.held++;
    counters.held_bytes += cost;
    counters.held_bytes_max = std::max(counters.held_bytes_max, counters.held_bytes);
}

// When the next packet is due; INT64_MAX: none is held.
std::int64_t Relay::next_due_ns() {
    while (!due_.empty()) {
        const auto &held = links_[due_.top().link].held;
        if (!held.empty() && held.front().due_ns == due_.top().due_ns)
            return due_.top().due_ns;
        due_.pop();
    }
    return INT64_MAX;
}

void Relay::deliver() {
    for (int i = 0; i < kPacketsInARow; i++) {
        const std::int64_t due_ns = next_due_ns(), now_ns = now();
        if (due_ns > now_ns)
            return;
        const std::size_t index = due_.top().link;
        due_.pop();
        deliver_first(index, now_ns);
    }
}

void Relay::deliver_first(std::size_t index, std::int64_t now_ns) {
    Link &link = links_[index];
    dcgym_delay_link &counters = memory_.link(index);
    const Packet packet = std::move(link.held.front());
    link.held.pop_front();
    counters.held--;
    counters.held_bytes -= packet.bytes + kPacketBytes;
    if (!link.held.empty())
        due_.push({link.held.front().due_ns, index});
    memory_.note_late(static_cast<std::uint64_t>(now_ns - packet.due_ns));
    if (!link.is_up || write(link.fd, packet.data.get(), packet.bytes) < 0)
        counters.rejected++;
    else
        counters.delivered++;
}

void Relay::set_timer() {
    const std::int64_t due_ns = next_due_ns();
    // A timer that has fired is set again: more may be due at its time than was delivered.
    if (due_ns == timer_ns_ && due_ns > now())
        return;
    timer_ns_ = due_ns;
    itimerspec setting{}; // zero: never
    if (due_ns != INT64_MAX) {
        setting.it_value.tv_sec = due_ns / 1'000'000'000;
        setting.it_value.tv_nsec = due_ns % 1'000'000'000;
    }
    if (timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &setting, nullptr) != 0)
        fail("timerfd_settime");
}

} // namespace dcgym::relay
