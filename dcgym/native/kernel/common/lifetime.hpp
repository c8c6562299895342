// SPDX-License-Identifier: Apache-2.0
// Private namespaces, and the thread that ends the process when its owner is gone.
#pragma once

#include <string>

namespace dcgym {

// unshare(2) of network, mount, pid, IPC and UTS namespaces; the caller's next child is pid 1.
void unshare_namespaces();
// For pid 1 of the new namespaces: private mounts with their own proc, sysfs, bpffs and /run.
void mount_private();
void die_with_parent();
// Ends this process, and with it its pid namespace, as soon as `channel_fd` hangs up or the process
// behind `owner_pidfd` ends. A thread of its own: it needs neither the interpreter nor its lock.
void watch_owner(int channel_fd, int owner_pidfd);
// Writes a sysctl as seen from the network namespace of `namespace_fd`.
void write_sysctl(int namespace_fd, const std::string &path, const std::string &value);
// A UDP socket of the network namespace of `namespace_fd`.
int open_udp(int namespace_fd);

} // namespace dcgym
