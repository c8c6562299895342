// SPDX-License-Identifier: Apache-2.0
// Prequal (Wydrowski, Kleinberg, Rumble, Archer, NSDI 2024): a balancer's probes under way, and its
// pool of answers, which goes by include/prequal.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "prequal.h"
#include "prequal_settings.hpp"

namespace dcgym::twin::balancing {

class Prequal {
  public:
    void clear() { *this = {}; }
    // Registers a probe and returns its number.
    uint64_t ask(int64_t now_ns, int64_t timeout_ns);

    enum class Verdict : uint8_t { taken, late, repeated };
    // An answer of a pool of `n` servers arrives; a fraction of the reuse budget is drawn.
    Verdict answer(const PrequalConfig &config, uint64_t serial, int64_t sent_ns,
                   const dcgym_answer &found, size_t n, __u64 *random);

    dcgym_prequal pool{};

  private:
    struct Asked {
        uint64_t serial;
        int64_t until_ns;
    };
    std::vector<Asked> asked_;
    uint64_t serial_ = 0;
};

} // namespace dcgym::twin::balancing
