/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name): what a stage of a request may occupy on an HTTP server, by its number in
 * plans.
 */
DCGYM_ROW(CPU, cpu)
DCGYM_ROW(IO, io)
#undef DCGYM_ROW
