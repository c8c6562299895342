// SPDX-License-Identifier: Apache-2.0
#include "congestion.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "dctcp.h"
#include "new_vegas.h"
#include "window_control.h"

namespace dcgym {
namespace {

// Linux 6.4; absent from the headers of Debian 12.
constexpr uint32_t map_flag_link = 1U << 13;
constexpr auto attach_struct_ops = static_cast<bpf_attach_type>(44);
// A trace is told by its size.
static_assert(sizeof(dcgym_dctcp_trace) != sizeof(dcgym_nv_trace));
static_assert(sizeof(dcgym_cc_trace) != sizeof(dcgym_nv_trace) &&
              sizeof(dcgym_cc_trace) != sizeof(dcgym_dctcp_trace));

void check_name(const std::string &name) {
    const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
    if (name.empty() || name.size() >= DCGYM_CC_NAME_BYTES ||
        !std::all_of(name.begin(), name.end(), allowed))
        throw_config_error("name", name, "1 to 15 letters, digits, '_' or '-'");
}

// libbpf 1.1 cannot set a member of a struct_ops value, so the compiled bytes are patched.
void patch_name(std::string &bytes, const std::string &name, const std::string &path) {
    std::string placeholder = DCGYM_CC_PLACEHOLDER, replacement = name;
    placeholder.resize(DCGYM_CC_NAME_BYTES);
    replacement.resize(DCGYM_CC_NAME_BYTES);
    const size_t at = bytes.find(placeholder);
    if (at == std::string::npos || bytes.find(placeholder, at + 1) != std::string::npos)
        throw_backend_error("the BPF object " + path + " is not ours", EINVAL);
    bytes.replace(at, placeholder.size(), replacement);
}

bpf_map *struct_ops_map(bpf_object *object) {
    bpf_map *map = nullptr;
    bpf_object__for_each_map(map, object) {
        if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
            return map;
    }
    throw_backend_error("the BPF object holds no congestion control", EINVAL);
}

bpf_map *labels_of(bpf_object *object) {
    bpf_map *map = bpf_object__find_map_by_name(object, "labels");
    if (map == nullptr)
        throw_backend_error("this congestion control does not label its flows", EINVAL);
    return map;
}

// The constants are one flag, or the options of window_control.h.
void set_options(bpf_object *object, const dcgym_cc_options &options) {
    bpf_map *rodata = bpf_object__find_map_by_name(object, ".rodata");
    if (rodata == nullptr)
        return;
    const bool tracing = options.is_traced != 0;
    const bool is_flag = bpf_map__value_size(rodata) == sizeof(tracing);
    const void *value = is_flag ? static_cast<const void *>(&tracing) : &options;
    check(bpf_map__set_initial_value(rodata, value, is_flag ? sizeof(tracing) : sizeof(options)),
          "cannot set the options of a congestion control");
}

} // namespace

CongestionControl::CongestionControl(const std::string &object_path, const std::string &name,
                                     const dcgym_cc_options &options, int label_map_fd)
    : name_(name) {
    check_name(name);
    std::string bytes = read_object(object_path);
    patch_name(bytes, name, object_path);
    object_ = open_object(bytes, object_path);
    set_options(object_.get(), options);
    if (label_map_fd >= 0)
        check(bpf_map__reuse_fd(labels_of(object_.get()), label_map_fd), "cannot share the labels");
    bpf_map *map = struct_ops_map(object_.get());
    check(bpf_map__set_map_flags(map, map_flag_link), "cannot set BPF_F_LINK");
    check(bpf_object__load(object_.get()), "cannot load the BPF object " + object_path);
    // With BPF_F_LINK this only stores the value; the link below registers it.
    prepared_.reset(bpf_map__attach_struct_ops(map));
    if (!prepared_)
        throw_backend_error("cannot prepare congestion control " + name, errno);
    link_fd_.reset(check(bpf_link_create(bpf_map__fd(map), 0, attach_struct_ops, nullptr),
                         "cannot register congestion control " + name));
}

std::optional<std::string> CongestionControl::trace(int socket_fd) const {
    if (!object_)
        throw_backend_error("the congestion control is closed", EBADF);
    const bpf_map *map = bpf_object__find_map_by_name(object_.get(), "traces");
    if (map == nullptr)
        return std::nullopt;
    std::string bytes(bpf_map__value_size(map), '\0');
    const int result = bpf_map_lookup_elem(bpf_map__fd(map), &socket_fd, bytes.data());
    if (result == -ENOENT)
        return std::nullopt;
    check(result, "cannot read the trace of a socket");
    return bytes;
}

int CongestionControl::map_descriptor(const std::string &map) const {
    if (!object_)
        throw_backend_error("the congestion control is closed", EBADF);
    return map_fd(object_.get(), map);
}

void CongestionControl::close() {
    link_fd_.reset();
    prepared_.reset();
    object_.reset();
}

} // namespace dcgym
