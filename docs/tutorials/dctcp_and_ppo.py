"""Compare a trained PPO with classic transports on real TCP; docs/tutorials/dctcp_and_ppo.md."""

import sys
from pathlib import Path

import dcgym

CHECKPOINT = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/ppo")
SEEDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 12.0

found = dcgym.compare(
    "CongestionControl-v2",
    {
        "cubic": "cubic",
        "dctcp": "dctcp",
        "fair-share": "fair-share",
        "ppo": CHECKPOINT,
    },
    seeds=range(1000, 1000 + SEEDS),
    seconds=SECONDS,
    warmup=SECONDS / 6,
)
print(found)
