// SPDX-License-Identifier: Apache-2.0
// The relay of link delay: one process that holds packets for all delayed links of an emulation.
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "control.hpp"
#include "program.hpp"

namespace {

constexpr const char *kUsage = "usage: dcgym-relay --control-fd N --shm-fd M\n"
                               "Started by dcgym; N is a SOCK_SEQPACKET Unix socket, M a memory "
                               "file.\n";
constexpr int kNice = -20;
constexpr int kMostPooledBytes = 1 << 30;

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
    dcgym::prepare_program();
    take_precedence();
    // What a burst took stays with the process: to give memory back costs a fault a page.
    mallopt(M_TRIM_THRESHOLD, kMostPooledBytes);
    mallopt(M_MMAP_THRESHOLD, kMostPooledBytes);
}

} // namespace

int main(int argc, char **argv) {
    const auto descriptors = dcgym::parse_descriptors(argc, argv);
    if (!descriptors) {
        std::cerr << kUsage;
        return 2;
    }
    try {
        prepare_process();
        dcgym::relay::Memory memory{descriptors->shm_fd};
        dcgym::relay::Relay relay{memory, descriptors->control_fd};
        dcgym::relay::Control control{relay, descriptors->control_fd};
        while (!relay.step() || control.serve()) {
        }
    } catch (const std::exception &error) {
        std::cerr << "dcgym-relay: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
