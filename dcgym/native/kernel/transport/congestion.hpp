// SPDX-License-Identifier: Apache-2.0
// Loader of the BPF congestion controls: an algorithm that lives as long as its holder.
#pragma once

#include "common/bpf_object.hpp"
#include "window_control.h"

#include <memory>
#include <optional>
#include <string>

namespace dcgym {

struct LinkDeleter {
    void operator()(bpf_link *link) const { bpf_link__destroy(link); }
};

// Registers the algorithm under a name of its own; unregistered on close or when the process dies.
class CongestionControl {
  public:
    // With a map for labels, an algorithm that labels its flows writes them there.
    CongestionControl(const std::string &object_path, const std::string &name,
                      const dcgym_cc_options &options, int label_map_fd = -1);

    const std::string &name() const { return name_; }
    // Bytes that the algorithm recorded for a socket of this process, if it runs on it traced.
    std::optional<std::string> trace(int socket_fd) const;
    // Of a map of its own; the descriptor stays this object's.
    int map_descriptor(const std::string &map) const;
    void close();

  private:
    std::string name_;
    ObjectPtr object_;
    std::unique_ptr<bpf_link, LinkDeleter> prepared_;
    Descriptor link_fd_;
};

} // namespace dcgym
