"""Draw the picture of the rooms in docs/design.md.

How to run:
    .venv/bin/python docs/_scripts/rooms_picture.py docs/images/rooms.svg
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

WIDTH, ROW, GAP, PAD = 100.0, 9.0, 3.4, 1.2
COMMANDS, FACES, PLAY, RULES, GROUND = "#e8eef7", "#dfeee3", "#f7eddc", "#f3e3e6", "#ececec"


@dataclass(frozen=True)
class Room:
    """A box of the picture: its name, what it is for, and its share of the row's width."""

    name: str
    purpose: str
    share: float = 1.0


# From the roof to the ground; an arrow leads from each row to those below it.
ROWS: tuple[tuple[str, tuple[Room, ...]], ...] = (
    (COMMANDS, (Room("cli", "the command dcgym"),)),
    (
        COMMANDS,
        (Room("suites", "suites as data; one rollout loop, results, statistics, reports"),),
    ),
    (
        COMMANDS,
        (
            Room("policies/learned", "learners: algorithm x library"),
            Room("testing", "contract suite, a network without a kernel"),
        ),
    ),
    (
        FACES,
        (Room("envs", "faces (single, vector, parallel, RLlib), session, system, bindings"),),
    ),
    (
        PLAY,
        (
            Room("backends/emulation", "Linux: namespaces, TCP, eBPF"),
            Room("backends/simulation", "compiled twins", 0.8),
            Room("policies", "those that act, by family of tasks", 1.1),
        ),
    ),
    (
        RULES,
        (
            Room(
                "tasks",
                "congestion, paths, joint, flows, balancing, assignment, accelerators, placement",
            ),
        ),
    ),
    (
        GROUND,
        (
            Room("topologies", "graphs and routes"),
            Room("traffic", "plans and generators"),
            Room("monitors", "shared-memory layouts"),
        ),
    ),
    (GROUND, (Room("sndlib", "network files of SNDlib: links and demands"),)),
    (GROUND, (Room("containers, files, json_text, registry", "files of every kind, and names"),)),
    (GROUND, (Room("config, reading, writing, yaml_text", "checks of values; text, in and out"),)),
    (
        GROUND,
        (
            Room("defaults, units, places, processes", "what everything uses"),
            Room("native", "C, C++, BPF: data planes, twins, generator"),
        ),
    ),
    (GROUND, (Room("errors", "one tree, a clear line each"),)),
)


def draw_row(axes: Axes, bottom: float, colour: str, rooms: tuple[Room, ...]) -> None:
    """Draw the boxes of one row.

    Args:
        axes: Where to draw.
        bottom: Lower edge of the row.
        colour: Fill of its boxes.
        rooms: The boxes from left to right.
    """
    unit = (WIDTH - PAD * (len(rooms) - 1)) / sum(room.share for room in rooms)
    left = 0.0
    for room in rooms:
        width = unit * room.share
        style = {"boxstyle": "round,pad=0,rounding_size=0.8", "facecolor": colour}
        axes.add_patch(FancyBboxPatch((left, bottom), width, ROW, edgecolor="#555555", **style))
        middle = left + width / 2
        axes.text(middle, bottom + 0.64 * ROW, room.name, ha="center", va="center", weight="bold")
        axes.text(middle, bottom + 0.28 * ROW, room.purpose, ha="center", va="center", size=8)
        left += width + PAD


def main() -> None:
    """Draw every row and write the picture."""
    # Text stays text, which keeps the file small and its words searchable.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dcgym", "font.size": 10})
    height = len(ROWS) * (ROW + GAP)
    figure, axes = plt.subplots(figsize=(9, 0.075 * height))
    for number, (colour, rooms) in enumerate(ROWS):
        bottom = height - number * (ROW + GAP) - ROW
        draw_row(axes, bottom, colour, rooms)
        if number + 1 < len(ROWS):
            arrow = {"arrowstyle": "-|>", "color": "#555555", "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (WIDTH / 2, bottom - GAP), (WIDTH / 2, bottom), arrowprops=arrow)
    axes.set(xlim=(-1, WIDTH + 1), ylim=(GAP - 1, height + 1))
    axes.axis("off")
    figure.savefig(sys.argv[1], bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
