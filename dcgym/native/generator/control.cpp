// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <sys/socket.h>

#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace dcgym {
namespace {

constexpr std::size_t kRequestBytes = 1 << 20;
/* A thousand busy sockets are ready at a time, and each may take 50 us: requests and moments that
 * are due would wait for all of them. */
constexpr std::size_t kHandlersInARow = 16;
/* 36 years of CLOCK_MONOTONIC; the times of a plan, as large, are added to it. */
constexpr std::int64_t kLatestStartNs = std::int64_t{1} << 60;
/* Probes that ask more often than they can be sent leave no time for anything else. */
constexpr std::int64_t kLeastProbePeriodNs = 100'000;

template <typename Number> Number read_number(std::istream &in, const char *what) {
    std::int64_t value = 0;
    if (!(in >> value) || value < 0)
        throw std::invalid_argument("wrong " + std::string{what});
    return static_cast<Number>(value);
}

/// Takes the first descriptor out of a message.
Fd take_file(msghdr &message) {
    for (cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
        return Fd{fd};
    }
    return {};
}

} // namespace

Control::Control(World &world, Engine &engine, HttpControl &http, int control_fd)
    : world_{world}, engine_{engine}, http_{http}, socket_{world.io, control_fd},
      buffer_(kRequestBytes) {
    wait();
}

void Control::wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code &error) {
                           if (error)
                               return world_.io.stop();
                           serve();
                           if (!world_.io.stopped())
                               wait();
                       });
}

void Control::run() {
    for (std::size_t handled = 1; world_.io.run_one() > 0; ++handled) {
        if (handled % kHandlersInARow != 0)
            continue;
        world_.timetable.serve();
        serve();
    }
}

void Control::serve() {
    Request request;
    if (receive(request)) {
        const std::string reply = answer(request);
        send(socket_.native_handle(), reply.data(), reply.size(), MSG_NOSIGNAL);
    }
}

bool Control::receive(Request &request) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec data{buffer_.data(), buffer_.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        world_.io.stop();
        return false;
    }
    request.file = take_file(message);
    request.text.assign(buffer_.data(), static_cast<std::size_t>(got));
    return true;
}

std::string Control::answer(const Request &request) {
    std::istringstream in{request.text};
    std::string command;
    in >> command;
    try {
        return dispatch(command, in, request);
    } catch (const std::exception &error) {
        return "error " + std::string{error.what()};
    }
}

std::string Control::dispatch(const std::string &command, std::istream &rest,
                              const Request &request) {
    if (command == "hosts")
        return set_hosts(rest);
    if (command == "probes")
        return set_probes(rest);
    if (command == "plan")
        return load_plan(rest, request.file.get());
    if (command == "stop")
        return "ok " + std::to_string(engine_.stop() + http_.stop());
    if (HttpControl::knows(command))
        return http_.answer(command, rest, request.file.get());
    if (command == "start") {
        const auto start_ns = read_number<std::int64_t>(rest, "start time");
        if (start_ns == 0 || start_ns > kLatestStartNs)
            throw std::invalid_argument("wrong start time");
        engine_.start(start_ns);
        http_.start(start_ns);
        return "ok";
    }
    throw std::invalid_argument("unknown command: " + command);
}

std::string Control::set_hosts(std::istream &rest) {
    engine_.load({});
    engine_.set_probes({}, 0);
    http_.clear();
    world_.hosts.clear();
    std::size_t index = 0;
    std::string namespace_path, ip;
    while (rest >> index >> namespace_path >> ip)
        world_.hosts.add(index, namespace_path, ip);
    if (!rest.eof())
        throw std::invalid_argument("wrong line in hosts");
    world_.telemetry.configure(world_.hosts.size(), 0);
    return "ok " + std::to_string(world_.hosts.size());
}

std::string Control::set_probes(std::istream &rest) {
    const auto period_ns = read_number<std::int64_t>(rest, "period of the probes");
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::size_t src = 0;
    std::size_t dst = 0;
    while (rest >> src >> dst) {
        if (src >= world_.hosts.size() || dst >= world_.hosts.size() || src == dst)
            throw std::invalid_argument("wrong hosts in probe " + std::to_string(pairs.size()));
        pairs.emplace_back(src, dst);
    }
    if (!rest.eof() || period_ns < kLeastProbePeriodNs)
        throw std::invalid_argument("wrong line in probes");
    engine_.load({});
    engine_.set_probes({}, period_ns);
    world_.telemetry.configure(world_.hosts.size(), pairs.size());
    engine_.set_probes(pairs, period_ns);
    return "ok " + std::to_string(pairs.size());
}

std::string Control::load_plan(std::istream &rest, int file) {
    const auto n_flows = read_number<std::size_t>(rest, "number of flows");
    std::vector<std::string> congestion_controls;
    for (std::string name; rest >> name;)
        congestion_controls.push_back(name == "-" ? "" : name);
    if (congestion_controls.size() != world_.hosts.size())
        throw std::invalid_argument("a plan without a congestion control for each host");
    if (file < 0)
        throw std::invalid_argument("a plan without its memory file");
    engine_.load(Plan{file, n_flows, std::move(congestion_controls)});
    return "ok " + std::to_string(n_flows);
}

} // namespace dcgym
