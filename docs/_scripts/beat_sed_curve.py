"""Draw docs/images/beat_sed.png: five trainings of the tutorial against constant weights and SED.

Run from the repository: ``python docs/_scripts/beat_sed_curve.py``; some five minutes on two cores.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import gymnasium as gym
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from dcgym.backends.records import SUMMARY

ENV_ID = "dcgym/LoadBalancing-v1"
SEEDS, STEPS, EVERY = 5, 400_000, 40_960
POOLS, EPISODE = 32, 240
FIRST_SEED = 10_000  # no training sees these
RIGHT = np.repeat([-1 / 6, 1 / 6], 4).astype(np.float32)
PICTURE = Path(__file__).parents[1] / "images" / "beat_sed.png"


def mean_fct_s(act, rule="weighted"):
    """Return the mean completion time over held-out episodes."""
    envs = gym.make_vec(ENV_ID, POOLS, rule=rule)
    seen, _ = envs.reset(seed=FIRST_SEED)
    for _ in range(EPISODE):
        seen = envs.step(act(seen))[0]
    pools = [envs.system.running.records(SUMMARY, pool) for pool in range(POOLS)]
    flows = [pool.applications["cpu"] for pool in pools]
    envs.close()
    return sum(f.count * f.mean_us for f in flows) / sum(f.count for f in flows) / 1e6


def constant(action):
    """Return a policy that always does the same."""
    return lambda seen: np.broadcast_to(action, (len(seen), 8)).astype(np.float32)


def train(seed):
    """Train as the tutorial does, and return steps and completion times."""
    import torch
    from stable_baselines3 import PPO

    from dcgym.envs.sb3 import SlotVecEnv

    torch.set_num_threads(1)
    envs = SlotVecEnv(gym.make_vec(ENV_ID, num_envs=32, info="none"))
    settings = {"n_steps": 64, "batch_size": 1024, "n_epochs": 4, "learning_rate": 1e-3}
    networks = {"log_std_init": -1.0}
    model = PPO(
        "MlpPolicy", envs, gamma=0.98, policy_kwargs=networks, seed=seed, device="cpu", **settings
    )

    def score():
        return mean_fct_s(lambda seen: model.predict(seen, deterministic=True)[0])

    points = [(0, score())]
    while model.num_timesteps < STEPS:
        model.learn(EVERY, reset_num_timesteps=False)
        points.append((model.num_timesteps, score()))
    return points


def main():
    """Train, draw, and print the last values."""
    levels = {
        "SED, stale weights": mean_fct_s(constant(np.zeros(8)), "sed"),
        "equal weights": mean_fct_s(constant(np.zeros(8))),
        "right weights": mean_fct_s(constant(RIGHT)),
        "earliest finish (knows all)": mean_fct_s(constant(np.zeros(8)), "earliest-finish"),
    }
    with ProcessPoolExecutor(2) as pool:
        runs = np.array(list(pool.map(train, range(SEEDS))))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for run in runs:
        axes.plot(run[:, 0] / 1e3, run[:, 1], color="#0072B2", alpha=0.35, linewidth=1)
    axes.plot(
        runs[0, :, 0] / 1e3, runs[:, :, 1].mean(axis=0), color="#0072B2", label="PPO, mean of 5"
    )
    styles = zip(levels.items(), ("#D55E00", "#E69F00", "#009E73", "#555555"), strict=True)
    for (name, level), colour in styles:
        axes.axhline(level, color=colour, linestyle="--", linewidth=1.2)
        below = name.startswith("earliest")
        place = {"ha": "right", "va": "top" if below else "bottom"}
        place |= {"xytext": (0, -3 if below else 1), "textcoords": "offset points"}
        axes.annotate(name, (STEPS / 1e3, level), color=colour, fontsize=9, **place)
    axes.set_ylim(bottom=min(levels.values()) - 0.12)
    axes.set(xlabel="training steps, thousands", ylabel="mean completion time, s")
    axes.set_title(f"LoadBalancing-v1, held-out episodes (commit {commit})", fontsize=10)
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.9))
    figure.savefig(PICTURE, dpi=110)
    for name, level in levels.items():
        print(f"{name}: {level:.3f} s")
    last = runs[:, -1, 1]
    print("PPO:", " ".join(f"{value:.3f}" for value in last), f"mean {last.mean():.3f} s")


if __name__ == "__main__":
    main()
