// SPDX-License-Identifier: Apache-2.0
// Any messages on the generator's control socket: each gets one answer, "ok ..." or "error ...".
//
// Run it in a network namespace of its own: plans that are accepted send real traffic there.
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "control.hpp"
#include "plan_file.hpp"

namespace {

constexpr std::uint8_t kEndOfMessage = 0xff;
constexpr std::uint8_t kBeginOfFile = 0xfe;
constexpr off_t kBlockBytes = 1 << 16;

constexpr char kHosts[] = "hosts 0 /proc/self/ns/net 127.0.0.1 1 /proc/self/ns/net 127.0.0.2";

using dcgym_fuzz::make_plan_file;
using dcgym_fuzz::require;

dcgym::Fd make_block() {
    dcgym::Fd block{memfd_create("block", MFD_CLOEXEC)};
    require(block.get() >= 0 && ftruncate(block.get(), kBlockBytes) == 0);
    return block;
}

/// The generator as main.cpp puts it together, and the owner's end of its socket.
class Generator {
  public:
    Generator() : shared_{make_block()}, telemetry_{shared_.get()} {
        int ends[2];
        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        owner_ = dcgym::Fd{ends[0]};
        control_.emplace(world_, engine_, http_, ends[1]);
    }

    /// Sends a message, with the bytes behind kBeginOfFile as its memory file, and checks the
    /// answer.
    void ask(const std::uint8_t *begin, const std::uint8_t *end) {
        const std::uint8_t *text_end = std::find(begin, end, kBeginOfFile);
        if (text_end == begin)
            return;
        dcgym::Fd file;
        if (text_end != end)
            file = make_plan_file(text_end + 1, static_cast<std::size_t>(end - text_end - 1));
        send_with(std::string(begin, text_end), file.get());
        serve();
        char answer[512];
        const ssize_t got = recv(owner_.get(), answer, sizeof(answer), MSG_DONTWAIT);
        require(got >= 2);
        const std::string word{answer, static_cast<std::size_t>(got)};
        require(word.starts_with("ok") || word.starts_with("error "));
        serve();
    }

  private:
    /// A bounded part of what is to be done: flows of an accepted plan have always more.
    void serve() {
        for (int count = 0; count < 16; ++count)
            io_.poll_one();
    }

    void send_with(const std::string &text, int fd) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        iovec data{const_cast<char *>(text.data()), text.size()};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (fd >= 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof(control);
            cmsghdr *part = CMSG_FIRSTHDR(&message);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
        }
        require(sendmsg(owner_.get(), &message, 0) == static_cast<ssize_t>(text.size()));
    }

    asio::io_context io_{1};
    dcgym::Hosts hosts_;
    dcgym::Fd shared_, owner_;
    dcgym::Telemetry telemetry_;
    dcgym::Timetable timetable_{io_};
    dcgym::World world_{io_, hosts_, telemetry_, timetable_};
    dcgym::Engine engine_{world_};
    dcgym::HttpControl http_{world_};
    std::optional<dcgym::Control> control_;
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    std::signal(SIGPIPE, SIG_IGN);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    Generator generator;
    const auto *hosts = reinterpret_cast<const std::uint8_t *>(kHosts);
    generator.ask(hosts, hosts + sizeof(kHosts) - 1);
    const std::uint8_t *end = data + size;
    for (const std::uint8_t *at = data; at < end;) {
        const std::uint8_t *message_end = std::find(at, end, kEndOfMessage);
        generator.ask(at, message_end);
        at = message_end + 1;
    }
    return 0;
}
