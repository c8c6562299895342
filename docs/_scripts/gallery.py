"""Draw the pictures of docs/gallery.md: each environment at work, and each topology.

The network environments run for some seconds on real traffic, which needs root, as does the pool
of real servers. The other pools are simulated.

How to run:
    .venv/bin/python docs/_scripts/gallery.py docs/images/gallery
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import dcgym
from dcgym.topologies import make_topology
from dcgym.topologies.io.drawing import draw

N_COLOURS, NONE = 256, Image.Dither.NONE
# A drawing of a topology is as wide as a page at most.
MOST_WIDTH = 1200


@dataclass(frozen=True)
class Scene:
    """An environment, what acts there, and the step at which it is drawn.

    Attributes:
        env: Its id.
        steps: How many are taken.
        config: Its arguments.
        swing: How far actions go from the middle of their space to its ends, 0 to 1.
    """

    env: str
    steps: int = 40
    config: Mapping[str, Any] = field(default_factory=dict)
    swing: float = 0.5


SCENES: Mapping[str, Scene] = {
    "congestion_control": Scene("dcgym/CongestionControl-v2", swing=0.9),
    "path_balancing": Scene("dcgym/PathBalancing-v2"),
    "flow_control": Scene("dcgym/FlowControl-v1", 40, {"backend": "simulation"}, 0.2),
    "joint": Scene("dcgym/Joint-v2", swing=0.9),
    "joint_54_hosts": Scene(
        "dcgym/Joint-v2", 20, {"topology": {"name": "fat-tree", "k": 6}, "interval": "200ms"}, 0.9
    ),
    "load_balancing": Scene("dcgym/LoadBalancing-v1", swing=0.2),
    "central_load_balancing": Scene("dcgym/CentralLoadBalancing-v1", swing=0.2),
    "central_load_balancing_64": Scene(
        "dcgym/CentralLoadBalancing-v1", 40, {"scenario": {"preset": "charon-64"}}, 0.2
    ),
    "job_assignment": Scene("dcgym/JobAssignment-v0", 60, {"action": "scores"}, 1.0),
    "accelerator_balancing": Scene(
        "dcgym/AcceleratorBalancing-v0",
        20,
        {"action": "weights", "is_terminal": False, "loads": (1.0, 1.1)},
        1.0,
    ),
    "load_balancing_emulation": Scene(
        "dcgym/LoadBalancing-v1", 40, {"backend": "emulation", "scenario": "testbed-7"}, 0.2
    ),
}
TOPOLOGIES: Mapping[str, Mapping[str, Any]] = {
    "dumbbell": {},
    "fat-tree": {"k": 4},
    "leaf-spine": {},
    "parking-lot": {},
    "single-switch": {},
    "jellyfish": {},
    "bcube": {},
    "pod": {},
}


def film(scene: Scene) -> Image.Image:
    """Return the last picture of an episode with drawn actions, the same in every run."""
    config = {"env": scene.env, "render_mode": "rgb_array", **scene.config}
    env = dcgym.make_env(config)
    generator = np.random.default_rng(1)
    low, high = _bounds(env.action_space)
    try:
        env.reset(seed=1)
        for _ in range(scene.steps):
            drawn = generator.uniform(-scene.swing, scene.swing, low.shape) / 2 + 0.5
            env.step(_action(env.action_space, low + drawn * (high - low)))
        return Image.fromarray(env.render())
    finally:
        env.close()


def film_flows() -> Image.Image:
    """Return a picture of flows that each have an agent, on a fat-tree."""
    env = dcgym.parallel_env(
        "FlowControl-v1",
        backend="simulation",
        topology={"name": "fat-tree", "k": 4},
        traffic="stride-8",
        flows=16,
        render_mode="rgb_array",
    )
    generator = np.random.default_rng(1)
    env.reset(seed=1)
    for _ in range(40):
        env.step({agent: generator.uniform(-0.9, 0.9, 1).astype("f4") for agent in env.agents})
    return Image.fromarray(env.render())


def film_vips(name: str = "VipPlacement-v0", policy_name: str = "duet") -> Image.Image:
    """Return a picture of a whole placement."""
    env = dcgym.make_env(env=name, render_mode="rgb_array")
    policy = dcgym.make_policy(policy_name, env)
    observation, info = env.reset(seed=1)
    is_over = False
    while not is_over:
        observation, _, is_over, _, info = env.step(policy.act(observation, info))
    return Image.fromarray(env.render())


def film_agents() -> Image.Image:
    """Return a picture of four balancers that decide on their own."""
    scenario = {"preset": "yao-sim-8", "balancers": 4}
    env = dcgym.parallel_env("LoadBalancing-v1", render_mode="rgb_array", scenario=scenario)
    generator = np.random.default_rng(1)
    env.reset(seed=1)
    for _ in range(40):
        env.step(
            {
                agent: generator.uniform(-0.2, 0.2, env.action_space(agent).shape).astype("f4")
                * env.action_space(agent).high
                for agent in env.agents
            }
        )
    return Image.fromarray(env.render())


def _bounds(space: Any) -> tuple[Any, Any]:
    parts = list(space.values()) if hasattr(space, "values") else [space]
    return np.concatenate([one.low for one in parts]), np.concatenate([one.high for one in parts])


def _action(space: Any, values: Any) -> Any:
    if not hasattr(space, "items"):
        return values.astype(np.float32)
    action, start = {}, 0
    for name, one in space.items():
        action[name] = values[start : start + one.shape[0]].astype(np.float32)
        start += one.shape[0]
    return action


def draw_topology(name: str, path: Path) -> Image.Image:
    """Return a drawing of a topology, which lies in a file for a moment."""
    draw(make_topology(name, **TOPOLOGIES[name]), path)
    image = Image.open(path).convert("RGB")
    image.thumbnail((MOST_WIDTH, MOST_WIDTH))
    return image


def main() -> None:
    """Write every picture, or those named after the folder."""
    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], Image.Image]] = {
        name: lambda scene=scene: film(scene) for name, scene in SCENES.items()
    }
    makers["parallel_load_balancing"] = film_agents
    makers["parallel_flow_control"] = film_flows
    makers["vip_placement"] = film_vips
    makers["dip_placement"] = lambda: film_vips("DipPlacement-v0", "rubik")
    makers["vip_migration"] = lambda: film_vips("VipMigration-v0", "sticky")
    for name in TOPOLOGIES:
        path = folder / f"topology_{name}.png"
        makers[path.stem] = lambda name=name, path=path: draw_topology(name, path)
    for name in wanted or makers:
        path = folder / f"{name}.png"
        # Of the ways to choose colours, this one keeps those of few pixels, as the scale's are.
        reduced = makers[name]().quantize(N_COLOURS, Image.Quantize.MAXCOVERAGE, dither=NONE)
        reduced.save(path, optimize=True)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
