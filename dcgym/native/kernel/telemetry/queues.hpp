// SPDX-License-Identifier: Apache-2.0
// Reads root queues of interfaces in any namespace through bpf/queues.bpf.c.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/bpf_object.hpp"

namespace dcgym {

struct NamespaceInterface {
    int namespace_fd; // -1: the caller's own
    int ifindex;
};

// Loads the program and shows it the interfaces; whoever holds the two descriptors may read.
class QueueReader {
  public:
    // Queue i is that of interfaces[i].
    QueueReader(const std::string &object_path, const std::vector<NamespaceInterface> &interfaces);
    int program_fd() const;
    int map_fd() const;

  private:
    void resize(uint32_t count);
    void learn(uint32_t slot, int ifindex) const;

    ObjectPtr object_;
};

// Lets the program copy all queues into its mapped array.
void read_queues(int program_fd);

} // namespace dcgym
