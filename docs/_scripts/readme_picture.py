"""Draw the README's picture from the runs of a quick benchmark.

How to run:
    make bench
    .venv/bin/python docs/_scripts/readme_picture.py bench-quick docs/images/quick.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pyarrow.parquet as pq

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {
    "cubic": "#c44e52",
    "dctcp": "#4c72b0",
    "fair-share": "#55a868",
    "random": "#8c8c8c",
    "ppo": "#8172b3",
    "ddpg": "#da8b32",
}


def main() -> None:
    """Read the steps of seed 0 of each policy and draw queue and goodput over time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", type=Path, help="output folder of the benchmark")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    figure, (queue, goodput) = plt.subplots(2, 1, sharex=True, figsize=(9, 4.6), dpi=110)
    for policy, colour in COLOURS.items():
        path = arguments.bench / "runs" / f"{policy}-0" / "steps.parquet"
        if not path.exists():
            continue
        steps = pq.read_table(path)
        time_s = steps["time_s"].to_numpy()
        style = {"color": colour, "label": policy, "linewidth": 1.4}
        queue.plot(time_s, steps["queue_bytes"].to_numpy() / 1e3, **style)
        # Half a second: an interval of 50 ms holds only some 40 packets.
        window = min(10, len(time_s))
        kernel = np.ones(window) / window
        smooth = np.convolve(steps["goodput_bps"].to_numpy(), kernel, "valid")
        goodput.plot(time_s[window - 1 :], smooth / 1e6, **style)
    queue.set_ylabel("bottleneck queue (KB)")
    goodput.set_ylabel("goodput (Mbit/s)")
    goodput.set_xlabel("time (s)")
    goodput.set_ylim(0, 11)
    for axes in (queue, goodput):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    queue.legend(ncols=6, loc="upper center", bbox_to_anchor=(0.5, 1.22), frameon=False)
    figure.tight_layout()
    figure.savefig(arguments.picture)


if __name__ == "__main__":
    main()
