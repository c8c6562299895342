/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, target, effect, backends, least, most)
 *
 * What happens to a pool of servers, by the number of its kind. target: SERVERS, BALANCER or
 * APPLICATIONS. effect: CAPACITY, how fast servers serve; FAULT, what they do wrong while they are
 * there; PRESENCE, who is there; or LOAD. backends: ALL or TWIN. least, most: bounds of its value;
 * NONE where it has none.
 */
DCGYM_ROW(capacity, "capacity", SERVERS, CAPACITY, ALL, 0.001, 1000)
DCGYM_ROW(colocated_load, "colocated-load", SERVERS, CAPACITY, ALL, 0, 1024)
DCGYM_ROW(add_server, "add-server", SERVERS, PRESENCE, ALL, NONE, NONE)
DCGYM_ROW(remove_server, "remove-server", SERVERS, PRESENCE, ALL, NONE, NONE)
DCGYM_ROW(drain_server, "drain-server", SERVERS, PRESENCE, ALL, NONE, NONE)
DCGYM_ROW(balancer_failure, "balancer-failure", BALANCER, PRESENCE, ALL, NONE, NONE)
DCGYM_ROW(balancer_recovery, "balancer-recovery", BALANCER, PRESENCE, ALL, NONE, NONE)
DCGYM_ROW(rate, "rate", APPLICATIONS, LOAD, ALL, 0.001, 1000)
DCGYM_ROW(fail_fast, "fail-fast", SERVERS, FAULT, ALL, 0, 1)
DCGYM_ROW(gray_failure, "gray-failure", SERVERS, FAULT, ALL, 0, 1)
DCGYM_ROW(flapping, "flapping", SERVERS, PRESENCE, TWIN, 0, 3600)
DCGYM_ROW(false_reports, "false-reports", SERVERS, FAULT, ALL, 0, 1000)
DCGYM_ROW(moving_load, "moving-load", SERVERS, CAPACITY, ALL, 0, 1024)
#undef DCGYM_ROW
