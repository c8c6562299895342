/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, weights, knows, description)
 *
 * The rules by which a balancer places a new flow, by their number. New ones come last: numbers lie
 * in saved results. weights: whose weights it uses, CONFIGURED (the operator's) or LEARNED (those
 * of the slow loop); rules that differ in the weights alone share code. knows: OWN, what its
 * balancer sees; TOLD, messages, reports or response times beside that; TRUTH, what only the
 * servers know, so that no balancer can have it.
 */
DCGYM_ROW(ECMP, "ecmp", NONE, OWN, "evenly by the flow's hash")
DCGYM_ROW(RANDOM, "random", NONE, OWN, "evenly at random")
DCGYM_ROW(ROUND_ROBIN, "round-robin", NONE, OWN, "the servers take turns")
DCGYM_ROW(WCMP, "wcmp", CONFIGURED, OWN, "by the flow's hash, in proportion to configured weights")
DCGYM_ROW(AWCMP, "awcmp", LEARNED, OWN, "by the flow's hash, in proportion to learned weights")
DCGYM_ROW(LSQ, "lsq", NONE, OWN, "fewest flows that this balancer tracks")
DCGYM_ROW(LSQ2, "lsq2", NONE, OWN, "fewest tracked flows of two candidates")
DCGYM_ROW(SED, "sed", CONFIGURED, OWN, "least (q + 1) / w, q tracked flows, w configured weights")
DCGYM_ROW(SED2, "sed2", CONFIGURED, OWN, "least (q + 1) / w of two candidates, configured weights")
DCGYM_ROW(SED_HALF, "sed-half", CONFIGURED, OWN,
          "least (q + 1/2) / w, which leaves fewer ties than sed")
DCGYM_ROW(WEIGHTED, "weighted", LEARNED, OWN,
          "least (q + 1) / w, q tracked flows, w learned weights")
DCGYM_ROW(WEIGHTED2, "weighted2", LEARNED, OWN,
          "least (q + 1) / w of two candidates, learned weights")
DCGYM_ROW(SAPP, "sapp", NONE, OWN, "lower predicted score of two candidates (Charon)")
DCGYM_ROW(WSAPP, "wsapp", CONFIGURED, OWN, "as sapp, the candidates drawn by configured weights")
DCGYM_ROW(GSQ, "gsq", NONE, TRUTH, "fewest flows at the server, in truth")
DCGYM_ROW(GSQ2, "gsq2", NONE, TRUTH, "fewest flows of two candidates, in truth")
DCGYM_ROW(ORACLE, "oracle", NONE, TRUTH, "least time until all work is done, in truth")
DCGYM_ROW(ORACLE2, "oracle2", NONE, TRUTH, "the same of two candidates")
DCGYM_ROW(EARLIEST_FINISH, "earliest-finish", NONE, TRUTH,
          "first to be done with the new flow, in truth")
DCGYM_ROW(SMOOTH, "round-robin-weighted", CONFIGURED, OWN,
          "in turn, smoothly in proportion to configured weights")
DCGYM_ROW(SMOOTH_LEARNED, "round-robin-learned", LEARNED, OWN,
          "in turn, smoothly in proportion to learned weights")
DCGYM_ROW(LEAST_REQUEST, "least-request", CONFIGURED, OWN,
          "Envoy's: two choices, or in turn by w / (q + 1)")
DCGYM_ROW(BALANCED, "br", CONFIGURED, OWN,
          "fewest tracked flows of two candidates drawn by configured weights")
DCGYM_ROW(OWN_IDLE, "jiq-own", NONE, OWN, "a server without a tracked flow, else evenly at random")
DCGYM_ROW(PREQUAL, "prequal", NONE, TOLD, "hot-cold lexicographic over answers to probes")
DCGYM_ROW(JIQ, "jiq", NONE, TOLD, "the first server that said it is idle, else evenly")
DCGYM_ROW(PEAK_EWMA, "peak-ewma", NONE, TOLD, "least response time times (q + 1) of two")
DCGYM_ROW(C3_RANK, "c3-rank", NONE, TOLD, "least cubic score of times and reported queue")
#undef DCGYM_ROW
