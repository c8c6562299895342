/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, number, description): how a run of a flow ended, by its number in
 * records: none has 0.
 */
DCGYM_ROW(FINISHED, finished, 1, "all bytes delivered, or the planned duration is over")
DCGYM_ROW(CUT, cut, 2, "still running when the generator was stopped")
DCGYM_ROW(REFUSED, refused, 3, "no connection, or no socket, came about")
DCGYM_ROW(RESET, reset, 4, "the connection broke before all bytes were delivered")
#undef DCGYM_ROW
