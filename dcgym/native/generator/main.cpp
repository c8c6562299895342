// SPDX-License-Identifier: Apache-2.0
// The traffic generator: one process that sends and receives for all emulated hosts.
#include <sys/resource.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "control.hpp"
#include "layout.hpp"
#include "program.hpp"

namespace {

constexpr const char *kUsage =
    "usage: dcgym-generator --control-fd N --shm-fd M\n"
    "       dcgym-generator --layout\n"
    "Started by dcgym; N is a SOCK_SEQPACKET Unix socket, M a memory file.\n";

constexpr int kNice = -10;

/// A late generator falsifies the experiment, a late learner only prolongs it.
///
/// Without the privilege the generator runs as it is.
void take_precedence() {
    setpriority(PRIO_PROCESS, 0, kNice);
    // Where sessions are scheduled as groups (sched(7)), a nice value counts within its own only.
    // The owner starts us in a session of our own.
    if (getsid(0) == getpid())
        std::ofstream{"/proc/self/autogroup"} << kNice;
}

void serve(const dcgym::ProgramDescriptors &descriptors) {
    asio::io_context io{1};
    dcgym::Hosts hosts;
    dcgym::Telemetry telemetry{descriptors.shm_fd};
    dcgym::Timetable timetable{io};
    dcgym::World world{io, hosts, telemetry, timetable};
    dcgym::Engine engine{world};
    dcgym::HttpControl http{world};
    dcgym::Control control{world, engine, http, descriptors.control_fd};
    control.run();
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--layout") == 0) {
        std::cout << dcgym::layout_json() << '\n';
        return EXIT_SUCCESS;
    }
    const auto descriptors = dcgym::parse_descriptors(argc, argv);
    if (!descriptors) {
        std::cerr << kUsage;
        return 2;
    }
    try {
        dcgym::prepare_program();
        take_precedence();
        serve(*descriptors);
    } catch (const std::exception &error) {
        std::cerr << "dcgym-generator: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
