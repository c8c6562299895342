// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace dcgym::relay {

Memory::Memory(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0)
        throw std::system_error(errno, std::generic_category(), "shared memory");
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ < sizeof(dcgym_delay_header))
        throw std::invalid_argument("the shared memory has no room for its header");
    start_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (start_ == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), "mmap");
    header().n_links = 0;
    header().version = DCGYM_DELAY_VERSION;
    header().magic = DCGYM_DELAY_MAGIC;
}

Memory::~Memory() {
    munmap(start_, bytes_);
}

void Memory::note_late(std::uint64_t late_ns) {
    dcgym_delay_header &counters = header();
    counters.late_packets++;
    counters.late_sum_ns += late_ns;
    counters.late_max_ns = std::max<std::uint64_t>(counters.late_max_ns, late_ns);
    counters.late_histogram[late_bucket(late_ns)]++;
}

void Memory::begin() {
    dcgym_delay_header &counters = header();
    counters.late_packets = counters.late_sum_ns = counters.late_max_ns = 0;
    std::fill(std::begin(counters.late_histogram), std::end(counters.late_histogram), 0);
    for (std::size_t index = 0; index < counters.n_links; index++)
        link(index) = {};
}

} // namespace dcgym::relay
