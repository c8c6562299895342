// SPDX-License-Identifier: Apache-2.0
#include "space.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "mounts.hpp"

namespace dcgym {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;
// linux/mount.h, which does not go together with the C library's header everywhere.
constexpr std::uint64_t kReadOnly = 1;
struct MountAttributes {
    std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

[[noreturn]] void fail(const std::string &what) {
    throw std::system_error(errno, std::generic_category(), what);
}

int open_or_fail(const std::string &path, int flags = O_RDONLY) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC);
    if (fd < 0)
        fail("open " + path);
    return fd;
}

int open_beside(const std::string &network, const char *name) {
    return open_or_fail(fs::path(network).replace_filename(name));
}

void join(int namespace_fd) {
    if (setns(namespace_fd, 0) != 0)
        fail("setns");
    close(namespace_fd);
}

std::string working_folder() {
    std::error_code none;
    return fs::current_path(none).string();
}

bool lies_in(const std::string &path, const std::string &folder) {
    return path == folder || path.starts_with(folder + '/');
}

/// Return a path of proc(5), in which some characters are octal numbers.
std::string unescape(const std::string &text) {
    std::string path;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] == '\\' && i + 3 < text.size()) {
            path += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
            i += 3;
        } else {
            path += text[i];
        }
    return path;
}

std::vector<std::string> mount_points() {
    std::ifstream table("/proc/self/mountinfo");
    std::vector<std::string> found;
    std::string word;
    while (table >> word) {
        for (int field = 2; field <= 5; ++field)
            table >> word;
        found.push_back(unescape(word));
        table.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return found;
}

/// Let files be read only, but for the working folder and a new /tmp.
void protect_files() {
    const std::string folder = working_folder();
    const bool has_folder = !folder.empty() && folder != "/";
    const std::string here = "/proc/self/fd/" + std::to_string(open_or_fail(".", O_PATH));
    mount_or_fail("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    if (has_folder) {
        // It may be one of the /tmp that is empty now.
        fs::create_directories(folder);
        mount_or_fail(here.c_str(), folder.c_str(), "", MS_BIND | MS_REC);
    }
    for (const std::string &place : mount_points()) {
        bool is_left = has_folder && lies_in(place, folder);
        for (const char *own : {"/proc", "/sys", "/dev/pts", "/dev/shm", "/run", "/tmp"})
            is_left = is_left || lies_in(place, own);
        MountAttributes attributes{.set = kReadOnly};
        // What is mounted below a later mount cannot be found, by nobody else either.
        if (!is_left &&
            syscall(SYS_mount_setattr, AT_FDCWD, place.c_str(), 0, &attributes,
                    sizeof attributes) != 0 &&
            errno != ENOENT && errno != EINVAL)
            fail("mount_setattr " + place);
    }
}

[[noreturn]] void run_first_process(const std::string &access, int ready_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mount_proc();
    if (!access.empty())
        replace_mount("sysfs", "/sys", access == "full" ? kHarmless : kHarmless | MS_RDONLY);
    if (access == "read-only")
        protect_files();
    // Whose parent has ended is this process's child, and shall leave nothing behind.
    std::signal(SIGCHLD, SIG_IGN);
    if (chdir("/") != 0 || write(ready_fd, "", 1) != 1)
        fail("write");
    syscall(SYS_close_range, 0U, ~0U, 0U);
    for (;;)
        pause();
}

void wait_for_end_of_input() {
    char byte;
    ssize_t length;
    do
        length = read(STDIN_FILENO, &byte, 1);
    while (length > 0 || (length < 0 && errno == EINTR));
}

void keep_space(const std::string &access, const std::string &network, int ready_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(STDOUT_FILENO);
    if (access.empty())
        join_space(network);
    else
        join(open_or_fail(network));
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
        fail("unshare");
    const pid_t first = fork();
    if (first < 0)
        fail("fork");
    if (first == 0)
        run_first_process(access, ready_fd);
    close(ready_fd);
    wait_for_end_of_input();
    kill(first, SIGKILL);
    waitpid(first, nullptr, 0);
}

/// Do in a child what may throw; return the child.
template <typename Body> pid_t in_child(const Body &body) {
    const pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid > 0)
        return pid;
    try {
        body();
    } catch (const std::exception &error) {
        std::cerr << "dcgym-host: " << error.what() << std::endl;
        _exit(kFailed);
    }
    _exit(0);
}

} // namespace

void hold_spaces(const std::string &access, const std::vector<std::string> &networks) {
    // Ctrl-C at the owner's terminal is the owner's business.
    setsid();
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        fail("pipe");
    std::vector<pid_t> keepers;
    for (const std::string &network : networks) {
        if (access.empty())
            join(open_beside(network, "pid_for_children"));
        keepers.push_back(in_child([&] { keep_space(access, network, ready[1]); }));
        if (access.empty())
            join(open_or_fail("/proc/self/ns/pid"));
    }
    close(ready[1]);
    std::size_t n_ready = 0;
    for (char byte; read(ready[0], &byte, 1) == 1;)
        ++n_ready;
    if (n_ready != networks.size())
        throw std::runtime_error("the namespaces of a host cannot be made");
    for (const pid_t keeper : keepers)
        std::cout << keeper << '\n';
    std::cout << std::flush;
    close(STDOUT_FILENO);
    wait_for_end_of_input();
    while (wait(nullptr) > 0) {
    }
}

void join_space(const std::string &network) {
    const std::string folder = working_folder();
    const int mounts = open_beside(network, "mnt");
    join(open_or_fail(network));
    join(mounts);
    if (chdir(folder.c_str()) != 0 && chdir("/") != 0)
        fail("chdir");
}

} // namespace dcgym
