// SPDX-License-Identifier: Apache-2.0
// Features that are one count of a port over others: dcgym.tasks.network.features, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "counts.hpp"

namespace dcgym::measure {

// What a feature is a share of.
enum class Whole { counters, queue_limit, link_bytes };

struct Ratio {
    size_t part = 0; // first word of the field
    bool is_level = false;
    Whole whole = Whole::counters;
    std::vector<size_t> counters; // first words of those whose sum is the whole
};

// Position of an observation: a ratio, or its change since the last interval.
struct Shown {
    size_t ratio = 0;
    bool is_change = false;
};

class Observer {
  public:
    Observer(const Layout &layout, std::vector<Ratio> ratios, std::vector<Shown> columns,
             std::vector<size_t> ports);

    size_t n_ports() const { return ports_.size(); }
    size_t n_ratios() const { return ratios_.size(); }
    size_t row_size() const { return columns_.size() * ports_.size(); }

    // Writes a copy's ratios, a row of the observed ports each.
    void measure(const Rows &rows, double duration_s, double *ratios) const;
    // Writes the beginning of a copy's observation, a row of columns for each observed port.
    void show(const double *now, const double *last, float *out) const;

  private:
    double whole(const Ratio &ratio, const Rows &rows, double duration_s, size_t port) const;

    const Layout &layout_;
    std::vector<Ratio> ratios_;
    std::vector<Shown> columns_;
    std::vector<size_t> ports_;
};

} // namespace dcgym::measure
