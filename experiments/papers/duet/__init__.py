"""Duet's simulations at full size: 30,000 VIPs on 1800 switches, at the level of flows."""
