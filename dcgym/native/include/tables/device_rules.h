/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, needs, weights, description)
 *
 * The rules by which a request gets a device of its server, by their number. New ones come last.
 * needs: NOTHING; LOAD or QUEUE, which periodic agents report; or BUSY, which event-driven agents
 * report. weights: whether it looks at the CONFIGURED weights of the devices.
 */
DCGYM_ROW(SERVER_ONLY, "server-only", NOTHING, NONE, "the processors alone")
DCGYM_ROW(ECMP, "device-ecmp", NOTHING, NONE, "the devices take turns")
DCGYM_ROW(WRR, "wrr", NOTHING, CONFIGURED, "the slots of a ring take turns, filled by weight")
/* Equation 5.1. */
DCGYM_ROW(DYNAMIC_WRR, "dynamic-wrr", LOAD, CONFIGURED, "in turn, by weight times the idle share")
DCGYM_ROW(LUR, "lur", LOAD, NONE, "least reported utilisation")
DCGYM_ROW(JSQ, "device-jsq", QUEUE, NONE, "shortest reported queue")
DCGYM_ROW(PRT, "prt", LOAD, NONE,
          "the first device, from fast to slow, below a threshold of utilisation")
DCGYM_ROW(P4MITE, "p4mite", BUSY, NONE,
          "the first device, from fast to slow, that has not said it is busy")
DCGYM_ROW(PO2, "device-po2", LOAD, NONE, "lower reported utilisation of two at random")
#undef DCGYM_ROW
