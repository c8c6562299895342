"""Settings of published experiments on learned congestion control of single flows.

Aurora: N. Jay et al., "A Deep Reinforcement Learning Perspective on Internet Congestion Control",
ICML 2019, and its gym (PCC-RL, ``network_sim.py``): one sender, one link. Its link is drawn anew
for each episode; here it has the middle of that range, 300 packets/s of 1500 bytes, and a queue of
64 packets. Delays are those of a data centre, since the emulation has no other, and a step is a
fixed interval in the place of half a round trip.

Orca: S. Abbasloo et al., "Classic Meets Modern", SIGCOMM 2020: a window is multiplied every 20 ms.
Below it runs Reno, where Orca has CUBIC.
"""

from __future__ import annotations

from dcgym.tasks.common.presets import PRESETS

__all__: list[str] = []

PRESETS.add(
    "aurora",
    {
        "env": "FlowControl-v1",
        "topology": {"name": "dumbbell", "hosts": 2, "rate": "3.6Mbit", "queue": "96KB"},
        "action": "aurora",
        "features": ["latency_inflation", "queueing", "send_excess"],
        "history": 10,
        "reward": "aurora",
        "interval": "100ms",
    },
    "one flow on one link, its rate changed by at most 2.5 % a step",
)
PRESETS.add(
    "orca",
    {
        "env": "FlowControl-v1",
        "topology": {"name": "dumbbell", "hosts": 4, "rate": "48Mbit", "queue": "400KB"},
        "action": "orca",
        "reward": "orca",
        "interval": "20ms",
    },
    "one flow beside a Reno flow, its window multiplied by 1/2 to 2",
)
