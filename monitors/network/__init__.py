"""Telemetry of a network: ports and hosts."""
