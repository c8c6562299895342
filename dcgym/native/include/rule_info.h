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

/* What a rule knows. */
enum dcgym_rule_knows {
    DCGYM_KNOWS_OWN,   /* what its balancer sees: the kernel's data plane has it */
    DCGYM_KNOWS_TOLD,  /* messages, reports, response times beside that */
    DCGYM_KNOWS_TRUTH, /* what only the servers know: no balancer can */
};

struct dcgym_rule_info {
    const char *name;
    enum dcgym_rule_weights weights;
    enum dcgym_rule_knows knows;
};

/* The rule must be below DCGYM_N_RULES. */
static inline const struct dcgym_rule_info *dcgym_describe_rule(__u32 rule) {
    static const struct dcgym_rule_info table[] = {
#define DCGYM_RULE_ROW(constant, name, weights, knows)                                             \
    {name, DCGYM_WEIGHTS_##weights, DCGYM_KNOWS_##knows},
        DCGYM_RULES(DCGYM_RULE_ROW)
#undef DCGYM_RULE_ROW
    };

    return &table[rule];
}

#endif
