// SPDX-License-Identifier: Apache-2.0
// The relay of link delay: one process that holds packets for all delayed links of an emulation.
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "control.hpp"

namespace {

constexpr const char *kUsage = "usage: dcgym-relay --control-fd N --shm-fd M\n"
                               "Started by dcgym; N is a SOCK_SEQPACKET Unix socket, M a memory "
                               "file.\n";
constexpr int kNice = -20;
constexpr int kMostPooledBytes = 1 << 30;

bool parse(int argc, char **argv, int &control_fd, int &shm_fd) {
    if (argc != 5)
        return false;
    for (int i = 1; i < argc; i += 2) {
        char *rest = nullptr;
        const long value = std::strtol(argv[i + 1], &rest, 10);
        if (*rest != '\0' || value < 0)
            return false;
        if (std::strcmp(argv[i], "--control-fd") == 0)
            control_fd = static_cast<int>(value);
        if (std::strcmp(argv[i], "--shm-fd") == 0)
            shm_fd = static_cast<int>(value);
    }
    return control_fd >= 0 && shm_fd >= 0;
}

/// A link does not wait for a processor. Without the privilege the relay runs as it may.
void take_precedence() {
    sched_param parameters{};
    parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
    if (sched_setscheduler(0, SCHED_FIFO, &parameters) != 0)
        setpriority(PRIO_PROCESS, 0, kNice);
    // Of use without SCHED_FIFO: timers of others are joined within 50 us.
    prctl(PR_SET_TIMERSLACK, 1UL);
}

void prepare_process() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    take_precedence();
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    // What a burst took stays with the process: to give memory back costs a fault a page.
    mallopt(M_TRIM_THRESHOLD, kMostPooledBytes);
    mallopt(M_MMAP_THRESHOLD, kMostPooledBytes);
}

} // namespace

int main(int argc, char **argv) {
    int control_fd = -1, shm_fd = -1;
    if (!parse(argc, argv, control_fd, shm_fd)) {
        std::cerr << kUsage;
        return 2;
    }
    try {
        prepare_process();
        dcgym::relay::Memory memory{shm_fd};
        dcgym::relay::Relay relay{memory, control_fd};
        dcgym::relay::Control control{relay, control_fd};
        while (!relay.step() || control.serve()) {
        }
    } catch (const std::exception &error) {
        std::cerr << "dcgym-relay: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
