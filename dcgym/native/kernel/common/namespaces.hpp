// SPDX-License-Identifier: Apache-2.0
// Private namespaces, and work inside those of others.
#pragma once

#include <functional>
#include <string>

namespace dcgym {

// unshare(2) of network, mount, pid, IPC and UTS namespaces; the caller's next child is pid 1.
void unshare_namespaces();
// For pid 1 of the new namespaces: private mounts with their own proc, sysfs, bpffs and /run.
// Kernel settings but the network's can be read alone, and devices that are somebody's not be
// opened.
void mount_private();
// Runs `body` on a fresh thread that has joined the namespace; rethrows what it throws.
void in_namespace(int namespace_fd, const std::function<void()> &body);

// Writes a sysctl as seen from the network namespace of `namespace_fd`.
void write_sysctl(int namespace_fd, const std::string &path, const std::string &value);
// A UDP socket of the network namespace of `namespace_fd`.
int open_udp(int namespace_fd);

} // namespace dcgym
