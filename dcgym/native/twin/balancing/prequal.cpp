// SPDX-License-Identifier: Apache-2.0
#include "prequal.hpp"

namespace dcgym::twin::balancing {

uint64_t Prequal::ask(int64_t now_ns, int64_t timeout_ns) {
    std::erase_if(asked_, [now_ns](const Asked &asked) { return asked.until_ns < now_ns; });
    asked_.push_back({++serial_, now_ns + timeout_ns});
    return serial_;
}

Prequal::Verdict Prequal::answer(const PrequalConfig &config, uint64_t serial, int64_t sent_ns,
                                 const dcgym_answer &found, size_t n, __u64 *random) {
    if (static_cast<int64_t>(found.received_ns) - sent_ns > config.timeout_ns)
        return Verdict::late;
    const size_t known =
        std::erase_if(asked_, [serial](const Asked &asked) { return asked.serial == serial; });
    if (known == 0)
        return Verdict::repeated;
    const dcgym_prequal_budget budget = config.budget(n);
    dcgym_answer kept = found;
    kept.uses = static_cast<__u16>(budget.uses + (dcgym_random(random) >> 11 < budget.more));
    const auto bits = static_cast<uint32_t>(dcgym_random(random) >> 32);
    dcgym_prequal_insert(&pool, budget.capacity, &kept, bits);
    return Verdict::taken;
}

} // namespace dcgym::twin::balancing
