// SPDX-License-Identifier: Apache-2.0
#include "bpf_object.hpp"

#include <pybind11/pybind11.h>

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

} // namespace dcgym
