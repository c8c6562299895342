/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, description): what became of an HTTP request, by its number in results.
 */
DCGYM_ROW(PENDING, "pending", "has not ended")
DCGYM_ROW(FINISHED, "finished", "a whole response with status 200")
DCGYM_ROW(CUT, "cut", "still running when the generator was stopped")
DCGYM_ROW(REFUSED, "refused", "no connection came about")
DCGYM_ROW(RESET, "reset", "the connection broke before the end of the response")
DCGYM_ROW(TIMED_OUT, "timed_out", "longer than the plan allows")
DCGYM_ROW(REJECTED, "rejected", "reset by a server whose backlog was full")
DCGYM_ROW(FAILED, "failed", "a whole response with another status, or no HTTP")
DCGYM_ROW(LOST, "lost", "ended early by the server that took it")
#undef DCGYM_ROW
