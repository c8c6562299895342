/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DCGYM_ROW(name): how a request for a device ended, by its number in records. */
DCGYM_ROW(completed)
DCGYM_ROW(dropped)
DCGYM_ROW(lost)
#undef DCGYM_ROW
