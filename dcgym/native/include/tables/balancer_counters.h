/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, description): what balancers count per CPU, from number 1 on: what was
 * dropped and why, then what happened.
 */
DCGYM_ROW(DROP_TRUNCATED, "truncated", "headers end before they should")
DCGYM_ROW(DROP_MALFORMED, "malformed", "header fields contradict each other")
DCGYM_ROW(DROP_FRAGMENT, "fragment", "of a datagram to a VIP: only the first has ports")
DCGYM_ROW(DROP_EXTENSION, "extension", "an IPv6 extension header before TCP or UDP")
DCGYM_ROW(DROP_PORT, "unknown_port", "to the address of a VIP, but no port of it")
DCGYM_ROW(DROP_NO_SERVER, "no_server", "the pool is empty, or names a number without a server")
DCGYM_ROW(DROP_BUSY, "pool_busy", "the pool was replaced during every attempt to read it")
DCGYM_ROW(DROP_TOO_BIG, "too_big", "does not fit the interface once it is in a tunnel")
DCGYM_ROW(DROP_NO_TUNNEL, "no_tunnel", "its server, or the balancer, has no address of that family")
DCGYM_ROW(DROP_PROTOCOL, "unknown_protocol",
          "to the address of a VIP, but not TCP, UDP, or ICMP for these")
DCGYM_ROW(MISSED, "missed", "packets of flows that nothing remembers, sent by hash")
DCGYM_ROW(EVICTED, "evicted", "ended or timed-out entries that gave way to new flows")
DCGYM_ROW(PCC_VIOLATIONS, "pcc_violations", "flows' packets that changed to another server")
DCGYM_ROW(REPORTS, "reports", "loads of servers that came with their SYN-ACKs")
DCGYM_ROW(ICMP_ERRORS, "icmp_errors", "sent on to the server whose packet they quote")
DCGYM_ROW(ECHOES, "echoes", "echo requests to a VIP, answered by the balancer")
DCGYM_ROW(VLAN, "vlan", "tagged frames to the balancer, left to the stack")
DCGYM_ROW(PROBES, "probes", "that were asked for")
DCGYM_ROW(PROBES_UNSENT, "probes_unsent", "of these, the queue to their sender was full")
DCGYM_ROW(ANSWERS, "answers", "to probes, in time")
DCGYM_ROW(ANSWERS_LATE, "late", "dropped: after the time-out")
DCGYM_ROW(ANSWERS_REPEATED, "repeated", "dropped: their probe has been answered")
DCGYM_ROW(MESSAGES_STRANGE, "strange", "dropped: from nobody's MAC, or to no probe of that server")
DCGYM_ROW(MESSAGES_LEFT, "left", "dropped: from a server that takes no new flows")
DCGYM_ROW(IDLE, "idle", "messages of idle servers")
DCGYM_ROW(DEVICE_REPORTS, "device_reports", "of devices, by their agents: taken")
DCGYM_ROW(UNKNOWN_DEVICE, "unknown_device", "dropped: a report of a device that there is not")
DCGYM_ROW(STALE_REPORTS, "stale", "dropped: a later one of that device was first")
DCGYM_ROW(DEVICE_FALLBACKS, "device_fallbacks",
          "new flows whose rule had no young report, or an empty ring; or whose device has gone: "
          "the server's first device got them")
#undef DCGYM_ROW
