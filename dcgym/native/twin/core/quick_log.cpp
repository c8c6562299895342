// SPDX-License-Identifier: Apache-2.0
#include "quick_log.hpp"

namespace dcgym::twin {

QuickLog::QuickLog() {
    for (uint64_t i = 0; i < rows; i++) {
        const double middle = 1 + (static_cast<double>(i) + 0.5) / rows;
        rows_[i].inverse = 1 / middle;
        rows_[i].log = -portable_log(rows_[i].inverse);
    }
}

const QuickLog quick_log;

} // namespace dcgym::twin
