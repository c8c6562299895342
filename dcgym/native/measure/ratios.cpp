// SPDX-License-Identifier: Apache-2.0
#include "ratios.hpp"

#include <utility>

namespace dcgym::measure {

Observer::Observer(const Layout &layout, std::vector<Ratio> ratios, std::vector<Shown> columns,
                   std::vector<size_t> ports)
    : layout_(layout), ratios_(std::move(ratios)), columns_(std::move(columns)),
      ports_(std::move(ports)) {}

void Observer::measure(const Rows &rows, double duration_s, double *ratios) const {
    for (const Ratio &ratio : ratios_)
        for (const size_t port : ports_) {
            const size_t word = ratio.part + port;
            const double part = ratio.is_level ? rows.level(word) : rows.rise(word);
            const double share = part / std::max(whole(ratio, rows, duration_s, port), 1.0);
            *ratios++ = std::min(std::max(share, 0.0), 1.0);
        }
}

void Observer::show(const double *now, const double *last, float *out) const {
    for (size_t port = 0; port < ports_.size(); port++)
        for (const Shown &column : columns_) {
            const size_t at = column.ratio * ports_.size() + port;
            const auto value = static_cast<float>(column.is_change ? now[at] - last[at] : now[at]);
            *out++ = std::min(std::max(value, column.is_change ? -1.0F : 0.0F), 1.0F);
        }
}

double Observer::whole(const Ratio &ratio, const Rows &rows, double duration_s, size_t port) const {
    switch (ratio.whole) {
    case Whole::queue_limit:
        return layout_.queue_limits_bytes[port];
    case Whole::link_bytes:
        return layout_.port_rates_bps[port] / 8 * duration_s;
    case Whole::counters:
        break;
    }
    double sum = 0;
    for (const size_t counter : ratio.counters)
        sum += rows.rise(counter + port);
    return sum;
}

} // namespace dcgym::measure
