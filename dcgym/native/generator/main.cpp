// SPDX-License-Identifier: Apache-2.0
// The traffic generator: one process that sends and receives for all emulated hosts.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "control.hpp"
#include "layout.hpp"

namespace {

constexpr const char *kUsage =
    "usage: dcgym-generator --control-fd N --shm-fd M\n"
    "       dcgym-generator --layout\n"
    "Started by dcgym; N is a SOCK_SEQPACKET Unix socket, M a memory file.\n";

constexpr int kNice = -10;

struct Options {
    int control_fd = -1;
    int shm_fd = -1;
};

bool parse(int argc, char **argv, Options &options) {
    if (argc != 5)
        return false;
    for (int i = 1; i < argc; i += 2) {
        char *rest = nullptr;
        const long value = std::strtol(argv[i + 1], &rest, 10);
        if (*rest != '\0' || value < 0)
            return false;
        if (std::strcmp(argv[i], "--control-fd") == 0)
            options.control_fd = static_cast<int>(value);
        if (std::strcmp(argv[i], "--shm-fd") == 0)
            options.shm_fd = static_cast<int>(value);
    }
    return options.control_fd >= 0 && options.shm_fd >= 0;
}

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

void prepare_process() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The terminal's Ctrl-C goes to the whole group; the owner decides when to stop.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    take_precedence();
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

void serve(const Options &options) {
    asio::io_context io{1};
    dcgym::Hosts hosts;
    dcgym::Telemetry telemetry{options.shm_fd};
    dcgym::Timetable timetable{io};
    dcgym::World world{io, hosts, telemetry, timetable};
    dcgym::Engine engine{world};
    dcgym::HttpControl http{world};
    dcgym::Control control{world, engine, http, options.control_fd};
    control.run();
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--layout") == 0) {
        std::cout << dcgym::layout_json() << '\n';
        return EXIT_SUCCESS;
    }
    Options options;
    if (!parse(argc, argv, options)) {
        std::cerr << kUsage;
        return 2;
    }
    try {
        prepare_process();
        serve(options);
    } catch (const std::exception &error) {
        std::cerr << "dcgym-generator: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
