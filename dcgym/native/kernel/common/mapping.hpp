// SPDX-License-Identifier: Apache-2.0
// Memory that processes share.
#pragma once

#include <cstddef>

namespace dcgym {

// A shared mapping of a whole file descriptor; owns the mapping, not the descriptor.
class Mapping {
  public:
    Mapping(int fd, size_t bytes, bool writable);
    ~Mapping();
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    char *data() const { return data_; }
    size_t size() const { return bytes_; }

  private:
    char *data_;
    size_t bytes_;
};

} // namespace dcgym
