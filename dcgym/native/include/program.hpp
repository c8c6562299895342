// SPDX-License-Identifier: Apache-2.0
// What the emulator's own programs, the traffic generator and the relay, begin with.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace dcgym {

/// What the owner hands over: a SOCK_SEQPACKET Unix socket and a memory file.
struct ProgramDescriptors {
    int control_fd = -1;
    int shm_fd = -1;
};

/// Reads `--control-fd N --shm-fd M`; nothing where the arguments are others.
inline std::optional<ProgramDescriptors> parse_descriptors(int argc, char **argv) {
    ProgramDescriptors found;
    if (argc != 5)
        return std::nullopt;
    for (int i = 1; i < argc; i += 2) {
        char *rest = nullptr;
        const long value = std::strtol(argv[i + 1], &rest, 10);
        if (*rest != '\0' || value < 0)
            return std::nullopt;
        if (std::strcmp(argv[i], "--control-fd") == 0)
            found.control_fd = static_cast<int>(value);
        if (std::strcmp(argv[i], "--shm-fd") == 0)
            found.shm_fd = static_cast<int>(value);
    }
    if (found.control_fd < 0 || found.shm_fd < 0)
        return std::nullopt;
    return found;
}

/// Ties the process to its owner, and lets it open as many descriptors as it may.
inline void prepare_program() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The terminal's Ctrl-C goes to the whole group; the owner decides when to stop.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

} // namespace dcgym
