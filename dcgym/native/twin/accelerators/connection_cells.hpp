// SPDX-License-Identifier: Apache-2.0
// The sources' connection table: an array of cells that a CRC16 of the five-tuple indexes
// (Tajbakhsh 2023, sections 4.2 and 5.3). Connections may share a cell, since nothing in it tells
// them apart.
//
// With a Bloom filter (P4Mite) a connection is known once the filter has its hash, and nothing is
// ever freed. Without one (P4Hauler) it is known while its cell is in use, and a last packet frees
// the cell.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/random.hpp"

namespace dcgym::twin::accelerators {

struct CellConfig {
    uint32_t cells = 0; // 0: every connection has an entry of its own
    uint32_t bloom_bits = 0;
    uint32_t bloom_hashes = 0;
};

class ConnectionCells {
  public:
    static constexpr uint32_t nobody = ~0U;

    void reset(const CellConfig &config) {
        config_ = config;
        // A register of a switch holds 0 before it is written.
        home_.assign(config.cells, config.bloom_bits ? 0 : nobody);
        bloom_.assign(config.bloom_bits, false);
    }
    bool is_on() const { return !home_.empty(); }

    // Where packets of this hash go; `nobody` where they are a new connection's.
    uint32_t find(uint16_t hash) const { return is_known(hash) ? home_[cell(hash)] : nobody; }

    void keep(uint16_t hash, uint32_t home) {
        for (uint32_t i = 0; i < bloom_functions(); i++)
            bloom_[bit(hash, i)] = true;
        home_[cell(hash)] = home;
    }

    void free(uint16_t hash) {
        if (bloom_.empty())
            home_[cell(hash)] = nobody;
    }

  private:
    size_t cell(uint16_t hash) const { return hash % home_.size(); }
    uint32_t bloom_functions() const { return bloom_.empty() ? 0 : config_.bloom_hashes; }
    // Kirsch and Mitzenmacher 2006: two hashes make as many as are needed.
    size_t bit(uint16_t hash, uint32_t function) const {
        const uint64_t mixed = Splitmix(hash).next();
        return ((mixed >> 32) + function * ((mixed & UINT32_MAX) | 1)) % bloom_.size();
    }
    bool is_known(uint16_t hash) const {
        for (uint32_t i = 0; i < bloom_functions(); i++)
            if (!bloom_[bit(hash, i)])
                return false;
        return true;
    }

    CellConfig config_;
    std::vector<uint32_t> home_; // device of each cell
    std::vector<bool> bloom_;
};

// CRC-16/ARC, P4's `crc16`.
inline uint16_t crc16(std::string_view bytes) {
    uint32_t crc = 0;
    for (const char byte : bytes) {
        crc ^= static_cast<uint8_t>(byte);
        for (uint32_t i = 0; i < 8; i++)
            crc = crc >> 1 ^ (crc & 1 ? 0xa001U : 0);
    }
    return static_cast<uint16_t>(crc);
}

} // namespace dcgym::twin::accelerators
