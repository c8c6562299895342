/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each rule of rules.h, for user space: the one table that C++ reads and that
 * Python takes from the compiled twin.
 */
#ifndef DCGYM_RULE_INFO_H
#define DCGYM_RULE_INFO_H

#include "rules.h"

/* Whose weights a rule uses. */
enum dcgym_rule_weights {
    DCGYM_WEIGHTS_NONE,
    DCGYM_WEIGHTS_CONFIGURED, /* the operator's */
    DCGYM_WEIGHTS_LEARNED,    /* those of the slow loop */
};

struct dcgym_rule_info {
    const char *name;
    enum dcgym_rule_weights weights;
    int knows_truth;
};

/* The rule must be below DCGYM_N_RULES. */
static inline const struct dcgym_rule_info *dcgym_describe_rule(__u32 rule) {
    static const struct dcgym_rule_info table[] = {
#define DCGYM_RULE_ROW(constant, name, weights, knows_truth)                                       \
    {name, DCGYM_WEIGHTS_##weights, knows_truth},
        DCGYM_RULES(DCGYM_RULE_ROW)
#undef DCGYM_RULE_ROW
    };

    return &table[rule];
}

#endif
