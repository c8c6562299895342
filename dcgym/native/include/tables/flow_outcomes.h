/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, description): how a flow to a pool of servers ended, by its number in
 * records.
 */
DCGYM_ROW(completed, "completed", "served")
DCGYM_ROW(rejected, "rejected", "refused by a full backlog")
DCGYM_ROW(pcc_violation, "pcc_violations", "reset, because its packets reached another server")
DCGYM_ROW(lost, "lost", "with a removed server, or because no balancer or server was left")
#undef DCGYM_ROW
