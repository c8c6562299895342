/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DCGYM_ROW(name): the kinds of agents of devices, by their number. */
DCGYM_ROW(none)
DCGYM_ROW(periodic)
DCGYM_ROW(event)
#undef DCGYM_ROW
