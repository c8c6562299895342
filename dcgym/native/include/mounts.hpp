// SPDX-License-Identifier: Apache-2.0
// Mounts of a private mount namespace, which keep root's processes from the machine's settings.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace dcgym {

constexpr unsigned long kHarmless = MS_NOSUID | MS_NODEV | MS_NOEXEC;

inline void mount_or_fail(const char *source, const char *target, const char *type,
                          unsigned long flags, const char *options = nullptr) {
    if (mount(source, target, type, flags, options) != 0)
        throw std::system_error(errno, std::generic_category(), std::string("mount on ") + target);
}

/// Make a mount of a file or folder on itself, with these flags alone.
inline void bind_to_itself(const char *path, unsigned long flags = 0) {
    mount_or_fail(path, path, "", MS_BIND | MS_REC);
    mount_or_fail("", path, "", MS_REMOUNT | MS_BIND | flags);
}

/// Mount a file system in the place of what is mounted there, which would show under it again.
inline void replace_mount(const char *type, const char *target, unsigned long flags = kHarmless) {
    while (umount2(target, MNT_DETACH) == 0) {
    }
    mount_or_fail(type, target, type, flags);
}

/// Mount /proc for this process's pid namespace: the network's settings to write, the kernel's
/// other ones to read.
inline void mount_proc() {
    replace_mount("proc", "/proc");
    for (const char *path :
         {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"})
        if (access(path, F_OK) == 0)
            bind_to_itself(path, MS_RDONLY | kHarmless);
    bind_to_itself("/proc/sys/net");
}

} // namespace dcgym
