"""Train a balancer with Stable-Baselines3, and compare it with SED; docs/tutorials/beat_sed.md."""

import sys

import gymnasium as gym
from stable_baselines3 import PPO

import dcgym
from dcgym.envs.sb3 import SlotVecEnv

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0

# One call steps 32 pools; rewards are the seconds that a flow finishes sooner than under SED.
envs = SlotVecEnv(gym.make_vec("dcgym/LoadBalancing-v1", num_envs=32, info="none"))
model = PPO(
    "MlpPolicy",
    envs,
    n_steps=64,
    batch_size=1024,
    n_epochs=4,
    learning_rate=1e-3,
    gamma=0.98,
    policy_kwargs={"log_std_init": -1.0},
    seed=SEED,
    device="cpu",
)
model.learn(STEPS)

right = [-1 / 6] * 4 + [1 / 6] * 4  # weights in proportion to the processors: 1 and 2
found = dcgym.compare(
    "LoadBalancing-v1",
    {
        "sed": "sed",
        "equal": lambda observation: [0.0] * 8,
        "right": lambda observation: right,
        "ppo": model,
    },
    seeds=range(1000, 1010),
    seconds=120.0,
)
print(found)
