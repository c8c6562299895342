// SPDX-License-Identifier: Apache-2.0
// What the BPF loaders share: an owned object, errors that Python sees as dcgym's own.
#pragma once

#include <bpf/libbpf.h>

#include <memory>
#include <string>

namespace dcgym {

// Raises dcgym.errors.ConfigError; the interpreter lock must be held.
[[noreturn]] void throw_config_error(const std::string &field, const std::string &value,
                                     const std::string &allowed);

// Raises dcgym.errors.BackendError with errno's text and libbpf's last warning.
[[noreturn]] void throw_backend_error(const std::string &what, int error_number);

// Raises unless `result` is 0 or positive, where libbpf returns -errno.
inline int check(int result, const std::string &what) {
    if (result < 0)
        throw_backend_error(what, -result);
    return result;
}

struct ObjectDeleter {
    void operator()(bpf_object *object) const { bpf_object__close(object); }
};
using ObjectPtr = std::unique_ptr<bpf_object, ObjectDeleter>;

// Contents of a compiled object; raises FeatureNotSupported where the file was never built.
std::string read_object(const std::string &path);

// Opens the bytes of a compiled object; libbpf's warnings are kept for the next error.
ObjectPtr open_object(const std::string &bytes, const std::string &path);

} // namespace dcgym
