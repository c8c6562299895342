/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DCGYM_ROW(name): the kinds of distributions of durations, by their number. */
DCGYM_ROW(constant)
DCGYM_ROW(exponential)
DCGYM_ROW(uniform)
DCGYM_ROW(lognormal)
DCGYM_ROW(pareto)
DCGYM_ROW(empirical)
DCGYM_ROW(erlang)
DCGYM_ROW(hyperexponential)
#undef DCGYM_ROW
