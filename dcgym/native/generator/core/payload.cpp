// SPDX-License-Identifier: Apache-2.0
#include "payload.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace dcgym {

const Payload &Payload::get() {
    static const Payload payload;
    return payload;
}

Payload::Payload() : file_{check(memfd_create("dcgym-payload", MFD_CLOEXEC), "memfd_create")} {
    check(ftruncate(file_.get(), kBytes), "ftruncate of the payload");
    void *mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (mapped == MAP_FAILED)
        check(-1, "mmap of the payload");
    std::memset(mapped, 'd', kBytes);
    data_ = static_cast<const char *>(mapped);
}

} // namespace dcgym
