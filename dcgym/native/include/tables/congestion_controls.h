/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, kernel_name, in_linux, program, marking, description)
 *
 * The congestion controls of hosts. kernel_name: what Linux calls its module, or the beginning of
 * what our program is registered as. in_linux: MODULE where Linux has a module of it. program: for
 * kernels without it, OWN (bpf/transport/SYMBOL.bpf.c), HEADER (SYMBOL.h, an algorithm of
 * window_control.h, is all of it, in the twin too) or NONE. marking: MARKS where hosts that run it
 * negotiate ECN, and switches should mark.
 */
DCGYM_ROW(cubic, "cubic", "cubic", MODULE, NONE, NO_MARKS, "Linux's default (RFC 9438)")
DCGYM_ROW(reno, "reno", "reno", MODULE, NONE, NO_MARKS, "NewReno, as Linux has it (RFC 5681)")
DCGYM_ROW(bbr, "bbr", "bbr", MODULE, NONE, NO_MARKS, "BBR version 1, as Linux has it")
DCGYM_ROW(dctcp, "dctcp", "dctcp", MODULE, OWN, MARKS, "RFC 8257")
DCGYM_ROW(new_vegas, "new-vegas", "nv", MODULE, OWN, NO_MARKS, "TCP-NV")
DCGYM_ROW(swift, "swift", "swift", NONE, HEADER, NO_MARKS, "delay against a target (SIGCOMM 2020)")
DCGYM_ROW(timely, "timely", "timely", NONE, HEADER, NO_MARKS,
          "gradient of the delay (SIGCOMM 2015)")
DCGYM_ROW(theta_powertcp, "theta-powertcp", "theta", NONE, HEADER, NO_MARKS,
          "power of the delay (NSDI 2022)")
DCGYM_ROW(copa, "copa", "copa", NONE, HEADER, NO_MARKS, "delay against a rate (NSDI 2018)")
DCGYM_ROW(dcgym_agent, "dcgym_agent", "agent", NONE, OWN, NO_MARKS,
          "Reno whose flows an agent can steer")
#undef DCGYM_ROW
