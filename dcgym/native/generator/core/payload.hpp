// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hosts.hpp"

namespace dcgym {

/// The bytes that all flows send: in memory, and as a memory file for sendfile(2).
class Payload {
  public:
    static constexpr std::size_t kBytes = 256 * 1024;

    static const Payload &get();

    const char *data() const { return data_; }
    int fd() const { return file_.get(); }

  private:
    Payload();

    Fd file_;
    const char *data_ = nullptr;
};

} // namespace dcgym
