// SPDX-License-Identifier: Apache-2.0
#include "telemetry.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <stdexcept>

#include "clock.hpp"
#include "hosts.hpp"
#include "sequence_lock.hpp"

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

void Telemetry::configure(std::size_t n_hosts, std::size_t n_probes) {
    const std::size_t fixed = sizeof(dcgym_generator_header) +
                              n_hosts * sizeof(dcgym_generator_host) +
                              n_probes * sizeof(dcgym_generator_probe);
    if (size_bytes_ < fixed + sizeof(dcgym_generator_record)) {
        throw std::invalid_argument("the shared block is too small for its hosts");
    }
    // Zero already where the file is new; touching its every page would keep them all in memory.
    std::memset(block_, 0, fixed);
    hosts_.assign(n_hosts, {});
    probes_.assign(n_probes, {});
    rounds_.assign(n_hosts, {});
    ring_ = reinterpret_cast<dcgym_generator_record *>(block_ + fixed);
    header()->version = DCGYM_GENERATOR_VERSION;
    header()->n_hosts = n_hosts;
    header()->n_probes = n_probes;
    header()->record_capacity = (size_bytes_ - fixed) / sizeof(dcgym_generator_record);
    publish({});
    __atomic_store_n(&header()->magic, DCGYM_GENERATOR_MAGIC, __ATOMIC_RELEASE);
}

void Telemetry::note_rtt(std::size_t host, std::uint64_t srtt_ns, std::uint64_t min_rtt_ns) {
    hosts_[host].rtt_sum_ns += srtt_ns;
    hosts_[host].rtt_samples += 1;
    Round &round = rounds_[host];
    round.srtt_sum_ns += srtt_ns;
    round.samples += 1;
    round.min_rtt_ns = round.min_rtt_ns == 0 ? min_rtt_ns : std::min(round.min_rtt_ns, min_rtt_ns);
}

void Telemetry::end_round() {
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
        const Round &round = rounds_[index];
        hosts_[index].srtt_ns = round.samples > 0 ? round.srtt_sum_ns / round.samples : 0;
        hosts_[index].min_rtt_ns = round.min_rtt_ns;
        rounds_[index] = {};
    }
}

void Telemetry::begin_records() {
    header()->record_base = header()->record_count;
}

void Telemetry::append(const dcgym_generator_record &record) {
    const std::uint64_t count = header()->record_count;
    dcgym_generator_record &slot = ring_[count % header()->record_capacity];
    __atomic_store_n(&slot.sequence, 0, __ATOMIC_RELAXED);
    std::atomic_thread_fence(std::memory_order_release);
    const auto *from = reinterpret_cast<const std::byte *>(&record);
    std::memcpy(reinterpret_cast<std::byte *>(&slot) + sizeof(slot.sequence),
                from + sizeof(record.sequence), sizeof(record) - sizeof(record.sequence));
    __atomic_store_n(&slot.sequence, count + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&header()->record_count, count + 1, __ATOMIC_RELEASE);
}

void Telemetry::publish(const Progress &progress) {
    dcgym_generator_header *out = header();
    const SequenceWrite write{out->sequence};
    std::byte *entries = block_ + sizeof(dcgym_generator_header);
    // Not memcpy, which takes no null pointer even for no bytes.
    const auto hosts = std::as_bytes(std::span{hosts_});
    std::copy_n(hosts.data(), hosts.size(), entries);
    const auto probes = std::as_bytes(std::span{probes_});
    std::copy_n(probes.data(), probes.size(), entries + hosts.size());
    out->sample_ns = out->heartbeat_ns = static_cast<std::uint64_t>(now_ns());
    out->start_ns = progress.start_ns;
    out->flows_planned = progress.flows_planned;
    out->flows_active = progress.flows_active;
    out->flows_finished = progress.flows_finished;
    out->starts = progress.starts;
    out->late_starts = progress.late_starts;
    out->udp_period_ns = progress.udp_period_ns;
    out->finished = progress.finished ? 1 : 0;
}

std::int64_t Telemetry::sample_due_ns() const {
    return static_cast<std::int64_t>(__atomic_load_n(&header()->sample_due_ns, __ATOMIC_RELAXED));
}

} // namespace dcgym
