/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCGYM_ROW(symbol, name, least, most)
 *
 * What happens to devices, agents and the load, by the number of its kind. least, most: bounds of
 * its value; NONE where it has none.
 */
DCGYM_ROW(rate, "rate", 0.001, 1e9)
DCGYM_ROW(device_speed, "device-speed", 0.001, 1000)
DCGYM_ROW(device_failure, "device-failure", NONE, NONE)
DCGYM_ROW(device_recovery, "device-recovery", NONE, NONE)
DCGYM_ROW(add_device, "add-device", NONE, NONE)
DCGYM_ROW(remove_device, "remove-device", NONE, NONE)
DCGYM_ROW(agent_silence, "agent-silence", NONE, NONE)
DCGYM_ROW(agent_recovery, "agent-recovery", NONE, NONE)
#undef DCGYM_ROW
