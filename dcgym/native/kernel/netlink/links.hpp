// SPDX-License-Identifier: Apache-2.0
// Interfaces of one network namespace: take them down and up, and hear when that happens.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace dcgym {

// Owns its two netlink sockets, so that waiting for news disturbs no conversation of others.
// `wait` is for one thread; the other calls may come from any.
class LinkMonitor {
  public:
    // Watches the network namespace of the caller.
    LinkMonitor();
    ~LinkMonitor();
    LinkMonitor(const LinkMonitor &) = delete;
    LinkMonitor &operator=(const LinkMonitor &) = delete;

    // Waits for the kernel to report a change of any interface, its carrier included. Returns false
    // once `stop` has been called, or after the timeout (negative: none) without a report.
    bool wait(int timeout_ms);
    // Makes `wait` return, now and for ever.
    void stop();

    // Interfaces that are up and have a carrier: both ends of their link are.
    std::vector<int> running();

    // Takes interfaces down or up in one batch. Returns once the kernel has acknowledged all.
    void set_up(const std::vector<int> &ifindexes, bool up);

  private:
    int news_fd_ = -1, request_fd_ = -1, stop_fd_ = -1;
    std::atomic<bool> stopped_{false};
};

} // namespace dcgym
