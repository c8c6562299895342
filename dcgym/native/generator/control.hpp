// SPDX-License-Identifier: MIT
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <string>
#include <vector>

#include "engine.hpp"

namespace dcgym {

/// Reads one flow of the plan; throws std::invalid_argument naming the wrong field.
FlowSpec parse_flow(const std::string &line, std::size_t n_hosts);

/// Serves the control socket: one request, one reply ("ok ..." or "error ...") at a time.
class Control {
  public:
    Control(World &world, Engine &engine, int control_fd);

  private:
    void wait();
    void serve();
    std::string answer(const std::string &request);
    std::string dispatch(const std::string &command, std::istream &rest);
    std::string set_hosts(std::istream &rest);
    std::string add_flows(std::istream &rest);

    World &world_;
    Engine &engine_;
    asio::posix::stream_descriptor socket_;
    std::vector<char> buffer_;
};

} // namespace dcgym
