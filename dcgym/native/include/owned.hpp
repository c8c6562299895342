// SPDX-License-Identifier: Apache-2.0
// Objects with threads, in a process that may fork.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>

namespace dcgym {

// Deletes what this process has made. In a fork the threads of an object are not there, and its
// destructor would wait for them for ever: the object is the parent's, and is left as it is.
template <typename T> class OwnerDelete {
  public:
    bool is_owner() const { return owner_ == getpid(); }
    void operator()(T *object) const {
        if (is_owner())
            delete object;
    }

  private:
    pid_t owner_ = getpid();
};

template <typename T> using Owned = std::unique_ptr<T, OwnerDelete<T>>;

} // namespace dcgym
