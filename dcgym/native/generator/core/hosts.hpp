// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dcgym {

/// A file descriptor that is closed with its owner.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_{fd} {}
    Fd(Fd &&other) noexcept : fd_{other.release()} {}
    Fd &operator=(Fd &&other) noexcept;
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    ~Fd();

    int get() const { return fd_; }
    int release();

  private:
    int fd_ = -1;
};

/// Throws std::system_error for errno when the result of a system call is negative.
int check(int result, const std::string &what);

sockaddr_in address(in_addr_t ip, std::uint16_t port);

/// Binds to the source port that belongs to a run, or to a free one where that port is taken.
///
/// Equal plans then send with equal ports, and a fabric that hashes them takes equal paths.
void bind_source(int fd, in_addr_t ip, std::uint64_t flow_id, std::uint64_t repetition);

/// The same for a client that leaves its address to the kernel, of either family.
void bind_client(int fd, int family, std::uint64_t request_id);

/// The emulated hosts: their network namespaces and addresses.
class Hosts {
  public:
    /// The namespace is named by a file, such as /proc/PID/ns/net.
    void add(std::size_t index, const std::string &namespace_path, const std::string &ip);
    void clear();
    std::size_t size() const { return hosts_.size(); }
    in_addr_t ip(std::size_t index) const { return hosts_.at(index).ip; }

    /// Opens a non-blocking socket inside the namespace of a host.
    Fd open_socket(std::size_t index, int type, int protocol = 0, int family = AF_INET);

  private:
    struct Host {
        Fd netns;
        in_addr_t ip = 0;
    };
    std::vector<Host> hosts_;
    std::size_t entered_ = kNone; /* the host whose namespace this process is in */

    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
};

} // namespace dcgym
