// SPDX-License-Identifier: Apache-2.0
// What the BPF loaders share: an owned object, errors that Python sees as dcgym's own.
#pragma once

#include <bpf/libbpf.h>

#include <cstdint>
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

// An owned file descriptor.
class Descriptor {
  public:
    explicit Descriptor(int value = -1) : value_(value) {}
    ~Descriptor() { reset(); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    int get() const { return value_; }
    void reset(int value = -1);

  private:
    int value_;
};

// Contents of a compiled object; raises FeatureNotSupported where the file was never built.
std::string read_object(const std::string &path);

// Opens the bytes of a compiled object; libbpf's warnings are kept for the next error.
ObjectPtr open_object(const std::string &bytes, const std::string &path);

// A map of an opened object; raises BackendError if it has none so named, as an object that was
// built from other sources.
bpf_map *find_map(const bpf_object *object, const std::string &name);
void size_map(const bpf_object *object, const std::string &name, uint32_t entries);

// Sets the constants of an object that is not loaded yet.
template <typename Constants>
void set_constants(const bpf_object *object, const Constants &constants,
                   const std::string &map = ".rodata") {
    check(bpf_map__set_initial_value(find_map(object, map), &constants, sizeof(constants)),
          "cannot set the constants in " + map);
}

// Descriptor of a program or map of a loaded object; raises BackendError if it has none so named.
int program_fd(const bpf_object *object, const std::string &name);
int map_fd(const bpf_object *object, const std::string &name);

struct TestRun {
    uint32_t verdict;
    std::string packet; // as the program left it
    uint32_t mean_ns;
};
// Runs a tc program on a packet that came by an interface, over and over.
TestRun run_on_packet(int program_fd, const std::string &packet, uint32_t ifindex, uint32_t repeat);

} // namespace dcgym
