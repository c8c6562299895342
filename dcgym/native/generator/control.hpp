// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <string>
#include <vector>

#include "core/world.hpp"
#include "flows/engine.hpp"
#include "http/control.hpp"

namespace dcgym {

/// Serves the control socket: one request, one reply ("ok ..." or "error ...") at a time.
class Control {
  public:
    Control(World &world, Engine &engine, HttpControl &http, int control_fd);

    /// Handles events until the other side closes the socket.
    void run();

  private:
    struct Request {
        std::string text;
        Fd file; /* the memory file that came with it, if any */
    };

    void wait();
    void serve();
    bool receive(Request &request);
    std::string answer(const Request &request);
    std::string dispatch(const std::string &command, std::istream &rest, const Request &request);
    std::string set_hosts(std::istream &rest);
    std::string set_probes(std::istream &rest);
    std::string load_plan(std::istream &rest, int file);

    World &world_;
    Engine &engine_;
    HttpControl &http_;
    asio::posix::stream_descriptor socket_;
    std::vector<char> buffer_;
};

} // namespace dcgym
