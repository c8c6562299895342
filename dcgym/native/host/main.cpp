// SPDX-License-Identifier: Apache-2.0
// The namespaces of emulated hosts, and the programs that run in them.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "filter.hpp"
#include "space.hpp"

namespace {

constexpr const char *kUsage =
    "usage: dcgym-host hold ACCESS [NETWORK ...]\n"
    "       dcgym-host nest [NETWORK ...]\n"
    "       dcgym-host run ACCESS NETWORK COMMAND [ARGUMENT ...]\n"
    "Started by dcgym. ACCESS: limited, read-only, full. NETWORK: a network namespace.\n";
constexpr int kCannotRun = 126, kNotFound = 127; // as sh(1) has it

// What programs of hosts keep of root's capabilities (capabilities(7)), unless they have full
// access: those that end at the network namespace, and those over files and over root's processes.
constexpr std::initializer_list<int> kKept = {
    CAP_CHOWN,       CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,        CAP_SETFCAP,
    CAP_SETGID,      CAP_SETUID,       CAP_SETPCAP,          CAP_SYS_CHROOT,    CAP_KILL,
    CAP_AUDIT_WRITE, CAP_NET_ADMIN,    CAP_NET_BIND_SERVICE, CAP_NET_BROADCAST, CAP_NET_RAW,
    CAP_IPC_LOCK,    CAP_IPC_OWNER,    CAP_SYS_NICE,         CAP_SYS_RESOURCE};

/// From the bounding set, so that no program of root's regains them.
void drop_capabilities() {
    for (int number = 0; prctl(PR_CAPBSET_READ, number) >= 0; ++number)
        if (std::find(kKept.begin(), kKept.end(), number) == kKept.end() &&
            prctl(PR_CAPBSET_DROP, number) != 0)
            throw std::system_error(errno, std::generic_category(), "PR_CAPBSET_DROP");
}

int run(const std::string &access, const std::string &network, char **argv) {
    dcgym::join_space(network);
    // kill(2) of the group 0 would be one of whoever started it, outside. A leader stays one.
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (access != "full") {
        dcgym::load_filter();
        drop_capabilities();
    }
    execvp(argv[0], argv);
    const int error = errno;
    std::cerr << "dcgym-host: " << argv[0] << ": " << std::strerror(error) << '\n';
    return error == ENOENT ? kNotFound : kCannotRun;
}

int act(const std::vector<std::string> &words, char **argv) {
    const auto rest = [&](std::size_t from) {
        return std::vector<std::string>(words.begin() + static_cast<long>(from), words.end());
    };
    if (words.size() >= 2 && words[0] == "hold") {
        dcgym::hold_spaces(words[1], rest(2));
        return 0;
    }
    if (!words.empty() && words[0] == "nest") {
        dcgym::hold_spaces("", rest(1));
        return 0;
    }
    if (words.size() >= 4 && words[0] == "run")
        return run(words[1], words[2], argv + 4);
    std::cerr << kUsage;
    return 2;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return act({argv + 1, argv + argc}, argv);
    } catch (const std::exception &error) {
        std::cerr << "dcgym-host: " << error.what() << '\n';
        return kCannotRun;
    }
}
