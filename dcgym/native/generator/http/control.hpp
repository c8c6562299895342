// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <istream>
#include <string>

#include "http.hpp"

namespace dcgym {

/// The requests of the control socket that are about HTTP; replies as Control's.
class HttpControl {
  public:
    explicit HttpControl(World &world) : world_{world}, http_{world} {}

    /// Whether this is one of the commands that answer() takes.
    static bool knows(const std::string &command);
    std::string answer(const std::string &command, std::istream &rest, int file);

    void start(std::int64_t start_ns) { http_.clients().start(start_ns); }
    std::size_t stop() { return http_.clients().stop(); }
    /// Forgets servers and plan, because the hosts are about to change.
    void clear();

  private:
    std::string set_servers(std::istream &rest, int file);
    std::string change_server(std::istream &rest);
    std::function<void()> read_change(HttpServer &server, std::istream &rest);
    std::function<void()> read_fault(HttpServer &server, const std::string &fault,
                                     std::istream &rest);
    std::string set_messages(std::istream &rest);
    std::string set_listeners(std::istream &rest);
    std::string load_requests(std::istream &rest, int file);

    World &world_;
    Http http_;
};

} // namespace dcgym
