/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DCGYM_ROW(symbol, name): the transports of flows, by their number in plans and records. */
DCGYM_ROW(TCP, "tcp")
DCGYM_ROW(UDP, "udp")
#undef DCGYM_ROW
