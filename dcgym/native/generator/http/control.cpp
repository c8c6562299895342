// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace dcgym {
namespace {

constexpr const char *kAnyAddress = "*";
constexpr std::string_view kDatagramPrefix = "udp:";
constexpr std::size_t kMostServers = 1024;
constexpr std::size_t kMostVips = 1024;
constexpr double kMostFactor = 1e6;
constexpr std::uint32_t kMostBacklog = 1'000'000;
constexpr std::uint64_t kMostIdleNs = 86'400'000'000'000;
constexpr std::uint32_t kMostWorkers = 1024;
constexpr std::uint32_t kMostSlots = 65'536;
constexpr std::uint64_t kMostLimit = 1'000'000; /* 0 is none */

template <typename Value> Value read(std::istream &in, const char *what) {
    Value value{};
    if (!(in >> value))
        throw std::invalid_argument("wrong " + std::string{what});
    return value;
}

std::uint64_t read_number(std::istream &in, const char *what, std::uint64_t low,
                          std::uint64_t high) {
    const auto value = read<std::int64_t>(in, what);
    if (value < 0 || static_cast<std::uint64_t>(value) < low ||
        static_cast<std::uint64_t>(value) > high)
        throw std::invalid_argument("wrong " + std::string{what});
    return static_cast<std::uint64_t>(value);
}

double read_factor(std::istream &in, const char *what, bool may_be_zero) {
    const auto value = read<double>(in, what);
    if (!std::isfinite(value) || value < 0 || value > kMostFactor || (value == 0 && !may_be_zero))
        throw std::invalid_argument("wrong " + std::string{what});
    return value;
}

double read_share(std::istream &in, const char *what) {
    const auto value = read<double>(in, what);
    if (!(value >= 0 && value <= 1))
        throw std::invalid_argument("wrong " + std::string{what});
    return value;
}

std::string read_resource_name(std::istream &in) {
    auto name = read<std::string>(in, "name of a resource");
    if (!is_resource_name(name))
        throw std::invalid_argument("wrong name of a resource: " + name);
    return name;
}

StationResource read_resource(std::istream &in) {
    StationResource resource;
    ResourceConfig &config = resource.config;
    config.workers =
        static_cast<std::uint32_t>(read_number(in, "workers of a resource", 1, kMostWorkers));
    config.slots = static_cast<std::uint32_t>(
        read_number(in, "slots of a resource", config.workers, kMostSlots));
    config.speed = read_factor(in, "speed of a resource", false);
    const std::uint64_t limit = read_number(in, "limit of a resource", 0, kMostLimit);
    if (limit > 0)
        resource.limit = static_cast<std::uint32_t>(limit);
    return resource;
}

HttpServerSpec read_server(std::istream &in, std::size_t n_hosts) {
    HttpServerSpec spec;
    spec.host = read_number(in, "host of a server", 0, n_hosts - 1);
    spec.ip = read<std::string>(in, "address of a server");
    if (spec.ip == kAnyAddress)
        spec.ip.clear();
    spec.port = static_cast<std::uint16_t>(read_number(in, "port of a server", 1, 65535));
    spec.is_burnt = read_number(in, "kind of a server's CPU", 0, 1) == 1;
    spec.backlog =
        static_cast<std::uint32_t>(read_number(in, "backlog of a server", 0, kMostBacklog));
    spec.idle_timeout_ns =
        static_cast<std::int64_t>(read_number(in, "idle timeout of a server", 1, kMostIdleNs));
    const std::size_t n = read_number(in, "number of a server's resources", 1, max_resources);
    for (std::size_t i = 0; i < n; ++i) {
        spec.resources.push_back(read_resource_name(in));
        spec.station.push_back(read_resource(in));
    }
    return spec;
}

/// A request line holds it as it is.
bool is_path(const std::string &text) {
    for (const char c : text)
        if (c <= ' ' || c > '~' || c == '?' || c == '#')
            return false;
    return !text.empty() && text.front() == '/';
}

} // namespace

bool HttpControl::knows(const std::string &command) {
    return command == "servers" || command == "server" || command == "requests" ||
           command == "messages" || command == "listeners";
}

std::string HttpControl::answer(const std::string &command, std::istream &rest, int file) {
    if (command == "servers")
        return set_servers(rest, file);
    if (command == "server")
        return change_server(rest);
    if (command == "messages")
        return set_messages(rest);
    if (command == "listeners")
        return set_listeners(rest);
    return load_requests(rest, file);
}

void HttpControl::clear() {
    http_.clients().load({});
    http_.set_messages({});
    http_.set_servers(-1, {});
}

std::string HttpControl::set_servers(std::istream &rest, int file) {
    const std::size_t n = read_number(rest, "number of servers", 0, kMostServers);
    if (n > 0 && world_.hosts.size() == 0)
        throw std::invalid_argument("servers without hosts");
    std::vector<HttpServerSpec> specs;
    for (std::size_t i = 0; i < n; ++i)
        specs.push_back(read_server(rest, world_.hosts.size()));
    if (n > 0 && file < 0)
        throw std::invalid_argument("servers without the memory of their rows");
    http_.set_servers(file, specs);
    return "ok " + std::to_string(n);
}

std::string HttpControl::set_messages(std::istream &rest) {
    constexpr std::uint64_t most_ns = 3'600'000'000'000;
    MessageBoard board;
    board.loss = read_share(rest, "loss of messages");
    board.copies = read_share(rest, "copies of answers");
    board.least_delay_ns =
        static_cast<std::int64_t>(read_number(rest, "least delay of messages", 0, most_ns));
    board.most_delay_ns = static_cast<std::int64_t>(read_number(
        rest, "most delay of messages", static_cast<std::uint64_t>(board.least_delay_ns), most_ns));
    board.members.resize(read_number(rest, "number of virtual addresses", 0, kMostVips));
    for (std::vector<std::size_t> &servers : board.members) {
        servers.resize(read_number(rest, "number of an address's servers", 0, kMostServers));
        for (std::size_t &server : servers)
            server = read_number(rest, "number of a server", 0, kMostServers - 1);
    }
    for (std::string ip; rest >> ip;)
        board.balancers.emplace_back(ip, DCGYM_MESSAGE_PORT);
    const std::size_t n = board.balancers.size();
    http_.set_messages(std::move(board));
    return "ok " + std::to_string(n);
}

std::string HttpControl::set_listeners(std::istream &rest) {
    std::vector<std::size_t> listeners;
    for (std::int64_t number = 0; rest >> number;) {
        if (number < 0 || static_cast<std::size_t>(number) >= http_.board().n_frontends())
            throw std::invalid_argument("no front end " + std::to_string(number));
        listeners.push_back(static_cast<std::size_t>(number));
    }
    if (!rest.eof())
        throw std::invalid_argument("wrong number of a front end");
    http_.board().set_listeners(listeners);
    return "ok " + std::to_string(listeners.size());
}

std::string HttpControl::change_server(std::istream &rest) {
    HttpServer &server = http_.server(read_number(rest, "number of a server", 0, kMostServers - 1));
    const auto time_ns =
        static_cast<std::int64_t>(read_number(rest, "time of a change", 0, std::uint64_t{1} << 60));
    const auto change = read_change(server, rest);
    if (time_ns == 0)
        change();
    else
        server.agenda().add(time_ns, [change] {
            // Such as a restart on a port that is taken by now: the server stays down.
            try {
                change();
            } catch (const std::exception &error) {
                std::cerr << "dcgym-generator: " << error.what() << '\n';
            }
        });
    return "ok";
}

std::function<void()> HttpControl::read_change(HttpServer &server, std::istream &rest) {
    const auto change = read<std::string>(rest, "change of a server");
    if (change == "drain")
        return [&server] { server.drain(); };
    if (change == "kill")
        return [&server] { server.kill(HttpConnection::Close::abortive); };
    if (change == "restart")
        return [&server] { server.restart(); };
    if (change == "reset")
        return [&server] { server.reset(); };
    if (change == "speed")
        return [&server, to = read_factor(rest, "speed", false)] { server.set_speed(to); };
    if (change == "colocated")
        return [&server, to = read_factor(rest, "co-located load", true)] {
            server.set_colocated(to);
        };
    if (change == "fail-fast" || change == "gray-failure" || change == "false-reports")
        return read_fault(server, change, rest);
    throw std::invalid_argument("unknown change of a server: " + change);
}

std::function<void()> HttpControl::read_fault(HttpServer &server, const std::string &fault,
                                              std::istream &rest) {
    if (fault == "false-reports")
        return [&server, to = read_factor(rest, "factor of reports", true)] {
            ServerFaults faults = server.faults();
            faults.report_factor = to;
            server.set_faults(faults);
        };
    return [&server, is_gray = fault == "gray-failure", to = read_share(rest, "share")] {
        ServerFaults faults = server.faults();
        (is_gray ? faults.gray_share : faults.fail_share) = to;
        server.set_faults(faults);
    };
}

std::string HttpControl::load_requests(std::istream &rest, int file) {
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    RequestTables tables;
    tables.n_requests = read_number(rest, "number of requests", 0, most);
    tables.n_stages = read_number(rest, "number of stages", 0, most);
    tables.timeout_ns = static_cast<std::int64_t>(read_number(rest, "timeout", 0, most));
    const std::size_t n_targets = read_number(rest, "number of targets", 0, 65'536);
    const std::size_t n_resources = read_number(rest, "number of resources", 0, 65'536);
    for (std::size_t i = 0; i < n_targets; ++i) {
        auto ip = read<std::string>(rest, "address of a target");
        const auto port = static_cast<std::uint16_t>(read_number(rest, "port", 1, 65535));
        const bool by_datagram = ip.starts_with(kDatagramPrefix);
        if (by_datagram)
            ip.erase(0, kDatagramPrefix.size());
        tables.by_datagram.push_back(by_datagram);
        tables.targets.emplace_back(ip, port);
    }
    for (std::size_t i = 0; i < n_resources; ++i)
        tables.resources.push_back(read_resource_name(rest));
    for (std::string path; rest >> path;) {
        if (!is_path(path))
            throw std::invalid_argument("wrong path: " + path);
        tables.paths.push_back(path);
    }
    if (file < 0)
        throw std::invalid_argument("requests without their memory file");
    const std::size_t n = tables.n_requests;
    http_.clients().load(RequestPlan{file, std::move(tables), world_.hosts.size()});
    return "ok " + std::to_string(n);
}

} // namespace dcgym
