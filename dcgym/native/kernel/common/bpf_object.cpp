// SPDX-License-Identifier: Apache-2.0
#include "bpf_object.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace py = pybind11;

namespace dcgym {
namespace {

// Beyond this the verifier's log is of no use in a one-line message.
constexpr size_t longest_warning = 4096;

// A packet may grow while a program runs on it; ours never do, so this is ample.
constexpr size_t test_headroom_bytes = 256;

thread_local std::string last_warning;

int keep_warning(libbpf_print_level level, const char *format, va_list arguments) {
    if (level != LIBBPF_WARN)
        return 0;
    std::array<char, longest_warning> line{};
    const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
    last_warning.assign(line.data(), std::strcspn(line.data(), "\n"));
    return length;
}

[[noreturn]] void raise(const char *name, const py::args &arguments) {
    const py::object type = py::module_::import("dcgym.errors").attr(name);
    PyErr_SetObject(type.ptr(), type(*arguments).ptr());
    throw py::error_already_set();
}

} // namespace

void throw_config_error(const std::string &field, const std::string &value,
                        const std::string &allowed) {
    raise("ConfigError", py::make_tuple(field, value, allowed));
}

void throw_backend_error(const std::string &what, int error_number) {
    std::string message = what + ": " + std::strerror(error_number);
    if (!last_warning.empty())
        message += " (" + last_warning + ")";
    last_warning.clear();
    raise("BackendError", py::make_tuple(message));
}

void Descriptor::reset(int value) {
    if (value_ >= 0)
        ::close(value_);
    value_ = value;
}

std::string read_object(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        raise("FeatureNotSupported",
              py::make_tuple("the BPF object " + path,
                             "apt-get install clang llvm libbpf-dev, then reinstall dcgym"));
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return std::move(bytes).str();
}

ObjectPtr open_object(const std::string &bytes, const std::string &path) {
    libbpf_set_print(keep_warning);
    last_warning.clear();
    ObjectPtr object(bpf_object__open_mem(bytes.data(), bytes.size(), nullptr));
    if (!object)
        throw_backend_error("cannot open the BPF object " + path, errno);
    return object;
}

bpf_map *find_map(const bpf_object *object, const std::string &name) {
    bpf_map *map = bpf_object__find_map_by_name(object, name.c_str());
    if (map == nullptr)
        throw_backend_error("no BPF map named " + name, ENOENT);
    return map;
}

void size_map(const bpf_object *object, const std::string &name, uint32_t entries) {
    check(bpf_map__set_max_entries(find_map(object, name), entries), "cannot size the map " + name);
}

int program_fd(const bpf_object *object, const std::string &name) {
    const bpf_program *program = bpf_object__find_program_by_name(object, name.c_str());
    if (program == nullptr)
        throw_backend_error("no BPF program named " + name, ENOENT);
    return bpf_program__fd(program);
}

int map_fd(const bpf_object *object, const std::string &name) {
    return check(bpf_object__find_map_fd_by_name(object, name.c_str()), "no BPF map named " + name);
}

TestRun run_on_packet(int program_fd, const std::string &packet, uint32_t ifindex,
                      uint32_t repeat) {
    __sk_buff context{};
    context.ifindex = ifindex;
    std::string output(packet.size() + test_headroom_bytes, '\0');
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = packet.data();
    options.data_size_in = static_cast<uint32_t>(packet.size());
    options.data_out = output.data();
    options.data_size_out = static_cast<uint32_t>(output.size());
    if (ifindex != 0) { // programs of other kinds take another context
        options.ctx_in = &context;
        options.ctx_size_in = sizeof(context);
    }
    options.repeat = static_cast<int>(repeat);
    check(bpf_prog_test_run_opts(program_fd, &options), "cannot run the program");
    output.resize(options.data_size_out);
    return {options.retval, output, options.duration};
}

} // namespace dcgym
