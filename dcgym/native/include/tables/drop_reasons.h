/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, description): why a switch dropped a packet, by the number of the reason.
 */
DCGYM_ROW(UNKNOWN_PORT, "unknown_port", "arrived at an interface that is not a fabric port")
DCGYM_ROW(TRUNCATED, "truncated", "headers end before they should")
DCGYM_ROW(MALFORMED, "malformed", "header fields contradict each other")
DCGYM_ROW(PROTOCOL, "protocol", "neither IPv4, IPv6 nor ARP")
DCGYM_ROW(UNKNOWN_MAC, "unknown_mac", "destination is not a fabric host")
DCGYM_ROW(NO_ROUTE, "no_route", "the switch has no next hop for the host")
DCGYM_ROW(TTL_EXPIRED, "ttl_expired", "the packet's hops are used up")
DCGYM_ROW(GROUP_BUSY, "group_busy", "the group was replaced during every attempt to read it")
DCGYM_ROW(LOSS, "loss", "the link was told to lose packets")
DCGYM_ROW(TOO_BIG, "too_big", "larger than the MTU of the link that it should take")
DCGYM_ROW(VLAN, "vlan", "tagged: the fabric knows no VLANs")
#undef DCGYM_ROW
