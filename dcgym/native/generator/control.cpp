// SPDX-License-Identifier: MIT
#include "control.hpp"

#include <sys/socket.h>

#include <exception>
#include <sstream>
#include <stdexcept>

namespace dcgym {
namespace {

constexpr std::size_t kRequestBytes = 1 << 20;
constexpr std::size_t kMaxCongestionControlChars = 15;

[[noreturn]] void reject(const std::string &field, const std::string &line) {
    throw std::invalid_argument("wrong " + field + " in flow: " + line);
}

/// Numbers are parsed signed, so that "-5" is refused instead of wrapping round.
std::int64_t number(std::istream &in, const std::string &field, std::int64_t low, std::int64_t high,
                    const std::string &line) {
    std::int64_t value = 0;
    if (!(in >> value) || value < low || value > high)
        reject(field, line);
    return value;
}

} // namespace

FlowSpec parse_flow(const std::string &line, std::size_t n_hosts) {
    constexpr std::int64_t most = std::int64_t{1} << 60;
    const auto hosts = static_cast<std::int64_t>(n_hosts);
    std::istringstream in{line};
    FlowSpec spec;
    std::string transport;
    spec.id = static_cast<std::uint64_t>(number(in, "id", 0, most, line));
    spec.src = static_cast<std::size_t>(number(in, "source", 0, hosts - 1, line));
    spec.dst = static_cast<std::size_t>(number(in, "destination", 0, hosts - 1, line));
    if (!(in >> transport) || (transport != "tcp" && transport != "udp")) {
        reject("transport", line);
    }
    spec.udp = transport == "udp";
    spec.port = static_cast<std::uint16_t>(number(in, "port", 1, 65535, line));
    spec.start_ns = number(in, "start", 0, most, line);
    spec.size_bytes = number(in, "size", kUnlimited, most, line);
    spec.duration_ns = number(in, "duration", kUnlimited, most, line);
    spec.rate_bps = number(in, "rate", kUnlimited, most, line);
    spec.repetitions = static_cast<std::uint64_t>(number(in, "repetitions", 0, most, line));
    spec.gap_ns = number(in, "gap", 0, most, line);
    if (!(in >> spec.congestion_control) ||
        spec.congestion_control.size() > kMaxCongestionControlChars) {
        reject("congestion control", line);
    }
    if (spec.congestion_control == "-")
        spec.congestion_control.clear();
    if (spec.src == spec.dst)
        reject("destination", line);
    if (spec.size_bytes == 0)
        reject("size", line);
    if (spec.duration_ns == 0)
        reject("duration", line);
    if (spec.rate_bps == 0 || (spec.udp && spec.rate_bps == kUnlimited))
        reject("rate", line);
    return spec;
}

Control::Control(World &world, Engine &engine, int control_fd)
    : world_{world}, engine_{engine}, socket_{world.io, control_fd}, buffer_(kRequestBytes) {
    wait();
}

void Control::wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code &error) {
                           if (error)
                               return world_.io.stop();
                           serve();
                       });
}

void Control::serve() {
    const ssize_t got = recv(socket_.native_handle(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return wait();
    if (got <= 0)
        return world_.io.stop();
    const std::string reply = answer(std::string{buffer_.data(), static_cast<std::size_t>(got)});
    send(socket_.native_handle(), reply.data(), reply.size(), MSG_NOSIGNAL);
    wait();
}

std::string Control::answer(const std::string &request) {
    std::istringstream in{request};
    std::string command;
    in >> command;
    try {
        return dispatch(command, in);
    } catch (const std::exception &error) {
        return "error " + std::string{error.what()};
    }
}

std::string Control::dispatch(const std::string &command, std::istream &rest) {
    if (command == "hosts")
        return set_hosts(rest);
    if (command == "plan")
        engine_.clear_plan();
    if (command == "plan" || command == "plan+")
        return add_flows(rest);
    if (command == "stop")
        return "ok " + std::to_string(engine_.stop());
    if (command == "start") {
        std::int64_t start_ns = 0;
        if (!(rest >> start_ns) || start_ns <= 0)
            throw std::invalid_argument("wrong start time");
        engine_.start(start_ns);
        return "ok";
    }
    if (command == "quit") {
        engine_.stop();
        world_.io.stop();
        return "ok";
    }
    throw std::invalid_argument("unknown command: " + command);
}

std::string Control::set_hosts(std::istream &rest) {
    engine_.clear_plan();
    world_.hosts.clear();
    std::size_t index = 0;
    std::string namespace_path, ip;
    while (rest >> index >> namespace_path >> ip)
        world_.hosts.add(index, namespace_path, ip);
    if (!rest.eof())
        throw std::invalid_argument("wrong line in hosts");
    world_.telemetry.configure(world_.hosts.size());
    return "ok " + std::to_string(world_.hosts.size());
}

std::string Control::add_flows(std::istream &rest) {
    std::string line;
    std::size_t count = 0;
    while (std::getline(rest, line)) {
        if (line.empty())
            continue;
        engine_.add_flow(parse_flow(line, world_.hosts.size()));
        ++count;
    }
    return "ok " + std::to_string(count);
}

} // namespace dcgym
