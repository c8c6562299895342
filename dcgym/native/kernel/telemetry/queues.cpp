// SPDX-License-Identifier: Apache-2.0
#include "queues.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "common/namespaces.hpp"

namespace dcgym {
namespace {

[[noreturn]] void fail(const char *what, int error) {
    throw std::system_error(error, std::generic_category(), what);
}

} // namespace

QueueReader::QueueReader(const std::string &object_path,
                         const std::vector<NamespaceInterface> &interfaces)
    : object_(open_object(read_object(object_path), object_path)) {
    resize(static_cast<uint32_t>(interfaces.size()));
    check(bpf_object__load(object_.get()), "cannot load the BPF object " + object_path);
    in_namespace(-1, [&] {
        // The thread's first namespace is the caller's, to which it does not return.
        for (const bool own : {true, false}) {
            for (uint32_t slot = 0; slot < interfaces.size(); slot++) {
                const auto &[namespace_fd, ifindex] = interfaces[slot];
                if ((namespace_fd < 0) != own)
                    continue;
                if (!own && setns(namespace_fd, CLONE_NEWNET) != 0)
                    fail("setns", errno);
                learn(slot, ifindex);
            }
        }
    });
}

void QueueReader::resize(uint32_t count) {
    for (const char *name : {"devices", "queues"})
        size_map(object_.get(), name, count);
    set_constants(object_.get(), count);
}

void QueueReader::learn(uint32_t slot, int ifindex) const {
    const std::array<char, ETH_HLEN + 1> packet{};
    __sk_buff context{};
    context.ifindex = static_cast<uint32_t>(ifindex);
    context.mark = slot;
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = packet.data();
    options.data_size_in = packet.size();
    options.ctx_in = &context;
    options.ctx_size_in = sizeof(context);
    const int fd = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), "queues_learn"));
    const int result = bpf_prog_test_run_opts(fd, &options);
    if (result < 0)
        fail("find an interface's queue", -result);
}

int QueueReader::program_fd() const {
    return bpf_program__fd(bpf_object__find_program_by_name(object_.get(), "queues_read"));
}

int QueueReader::map_fd() const {
    return bpf_object__find_map_fd_by_name(object_.get(), "queues");
}

void read_queues(int program_fd) {
    LIBBPF_OPTS(bpf_test_run_opts, options);
    const int result = bpf_prog_test_run_opts(program_fd, &options);
    if (result < 0)
        fail("read the queues", -result);
}

} // namespace dcgym
