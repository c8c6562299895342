// SPDX-License-Identifier: Apache-2.0
#include "mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace dcgym {
namespace {

size_t page_rounded(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

} // namespace

Mapping::Mapping(int fd, size_t bytes, bool writable) : bytes_(page_rounded(bytes)) {
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *mapped = mmap(nullptr, bytes_, protection, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), "mmap");
    data_ = static_cast<char *>(mapped);
}

Mapping::~Mapping() {
    munmap(data_, bytes_);
}

} // namespace dcgym
