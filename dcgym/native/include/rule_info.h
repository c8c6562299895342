/* SPDX-License-Identifier: Apache-2.0 */
/* What tables/balancing_rules.h says of each rule, for user space. */
#ifndef DCGYM_RULE_INFO_H
#define DCGYM_RULE_INFO_H

#include "rules.h"

enum dcgym_rule_weights {
    DCGYM_WEIGHTS_NONE,
    DCGYM_WEIGHTS_CONFIGURED,
    DCGYM_WEIGHTS_LEARNED,
};

enum dcgym_rule_knows {
    DCGYM_KNOWS_OWN,
    DCGYM_KNOWS_TOLD,
    DCGYM_KNOWS_TRUTH,
};

struct dcgym_rule_info {
    enum dcgym_rule_weights weights;
    enum dcgym_rule_knows knows;
};

/* The rule must be below DCGYM_N_RULES. */
static inline const struct dcgym_rule_info *dcgym_describe_rule(__u32 rule) {
    static const struct dcgym_rule_info table[] = {
#define DCGYM_ROW(symbol, name, weights, knows, ...) {DCGYM_WEIGHTS_##weights, DCGYM_KNOWS_##knows},
#include "tables/balancing_rules.h"
    };

    return &table[rule];
}

#endif
