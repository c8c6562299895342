// SPDX-License-Identifier: MIT
#include "telemetry.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "clock.hpp"
#include "hosts.hpp"

namespace dcgym {

Telemetry::Telemetry(int shm_fd) {
    struct stat status {};
    check(fstat(shm_fd, &status), "fstat of the shared block");
    size_bytes_ = static_cast<std::size_t>(status.st_size);
    if (size_bytes_ < sizeof(dcgym_generator_header)) {
        throw std::invalid_argument("the shared block is smaller than its header");
    }
    void *mapped = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0);
    if (mapped == MAP_FAILED)
        check(-1, "mmap of the shared block");
    block_ = static_cast<std::byte *>(mapped);
}

Telemetry::~Telemetry() {
    munmap(block_, size_bytes_);
}

dcgym_generator_header *Telemetry::header() const {
    return reinterpret_cast<dcgym_generator_header *>(block_);
}

void Telemetry::configure(std::size_t n_hosts) {
    const std::size_t fixed =
        sizeof(dcgym_generator_header) + n_hosts * sizeof(dcgym_generator_host);
    if (size_bytes_ < fixed + sizeof(dcgym_generator_record)) {
        throw std::invalid_argument("the shared block is too small for its hosts");
    }
    std::memset(block_, 0, size_bytes_);
    hosts_.assign(n_hosts, dcgym_generator_host{});
    ring_ = reinterpret_cast<dcgym_generator_record *>(block_ + fixed);
    header()->version = DCGYM_GENERATOR_VERSION;
    header()->n_hosts = n_hosts;
    header()->record_capacity = (size_bytes_ - fixed) / sizeof(dcgym_generator_record);
    publish({});
    __atomic_store_n(&header()->magic, DCGYM_GENERATOR_MAGIC, __ATOMIC_RELEASE);
}

void Telemetry::begin_records() {
    header()->record_base = header()->record_count;
}

void Telemetry::append(const dcgym_generator_record &record) {
    const std::uint64_t count = header()->record_count;
    ring_[count % header()->record_capacity] = record;
    __atomic_store_n(&header()->record_count, count + 1, __ATOMIC_RELEASE);
}

void Telemetry::publish(const Progress &progress) {
    dcgym_generator_header *out = header();
    const std::uint64_t sequence = out->sequence;
    __atomic_store_n(&out->sequence, sequence + 1, __ATOMIC_RELAXED);
    std::atomic_thread_fence(std::memory_order_release);
    std::memcpy(block_ + sizeof(dcgym_generator_header), hosts_.data(),
                hosts_.size() * sizeof(dcgym_generator_host));
    out->sample_ns = out->heartbeat_ns = static_cast<std::uint64_t>(now_ns());
    out->start_ns = progress.start_ns;
    out->flows_planned = progress.flows_planned;
    out->flows_active = progress.flows_active;
    out->flows_finished = progress.flows_finished;
    out->finished = progress.finished ? 1 : 0;
    __atomic_store_n(&out->sequence, sequence + 2, __ATOMIC_RELEASE);
}

} // namespace dcgym
