/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, memory, description)
 *
 * How a switch chooses among equal-cost ports, by the number of the rule. memory: FLOWS, the switch
 * remembers where a flow goes, or NONE.
 */
DCGYM_ROW(ECMP, "ecmp", FLOWS, "a hash of each flow chooses")        /* RFC 2992 */
DCGYM_ROW(LETFLOW, "letflow", FLOWS, "each flowlet draws at random") /* Vanini et al., NSDI 2017 */
DCGYM_ROW(SPRAY, "spray", NONE, "each packet draws at random") /* Dixit et al., INFOCOM 2013 */
/* Ghorbani et al., SIGCOMM 2017. */
DCGYM_ROW(DRILL, "drill", NONE,
          "each packet takes the shortest of two queues at random and the last one taken")
#undef DCGYM_ROW
