"""PPO in one file, after CleanRL: python ppo_single_file.py [STEPS] [SEED]."""

import sys

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

import dcgym  # noqa: F401  registers the environments

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
SLOTS, LENGTH, EPOCHS, MINIBATCH = 16, 64, 4, 256
GAMMA, LAMBDA, CLIP, RATE = 0.98, 0.95, 0.2, 1e-3

torch.manual_seed(SEED)
torch.set_num_threads(1)
# One call steps all pools; a slot whose episode ended begins anew in the same step.
envs = gym.make_vec("dcgym/LoadBalancing-v1", SLOTS, info="none", autoreset_mode="SameStep")
n_seen = envs.single_observation_space.shape[0]
n_actions = envs.single_action_space.shape[0]


def network(outputs: int, gain: float) -> nn.Sequential:
    """Two hidden layers; a small gain makes the first outputs almost 0."""
    layers = nn.Sequential(
        nn.Linear(n_seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )
    with torch.no_grad():
        layers[-1].weight.mul_(gain)
    return layers


actor, critic = network(n_actions, 0.01), network(1, 1.0)
log_std = nn.Parameter(torch.full((n_actions,), -1.0))
parameters = [*actor.parameters(), *critic.parameters(), log_std]
optimizer = torch.optim.Adam(parameters, RATE)


def tensor(values: object) -> torch.Tensor:
    """Return numbers as PyTorch wants them."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


seen, done_steps = tensor(envs.reset(seed=SEED)[0]), 0
while done_steps < STEPS:
    batch = []
    with torch.no_grad():
        for _ in range(LENGTH):
            policy = Normal(actor(seen), log_std.exp())
            action = policy.sample()
            value, chance = critic(seen).squeeze(-1), policy.log_prob(action).sum(-1)
            after, reward, terminated, truncated, _ = envs.step(action.clamp(-1, 1).numpy())
            ended = tensor(terminated | truncated)
            batch.append((seen, action, chance, value, tensor(reward), ended))
            seen = tensor(after)
        last_value = critic(seen).squeeze(-1)
    shown, actions, chances, values, rewards, ends = (
        torch.stack(one) for one in zip(*batch, strict=True)
    )
    advantages, gain = torch.zeros_like(rewards), torch.zeros(SLOTS)
    for step in reversed(range(LENGTH)):
        stays = 1 - ends[step]
        error = rewards[step] + GAMMA * stays * last_value - values[step]
        gain = error + GAMMA * LAMBDA * stays * gain
        advantages[step], last_value = gain, values[step]
    flat = [one.flatten(0, 1) for one in (shown, actions, chances, advantages, advantages + values)]
    for _ in range(EPOCHS):
        for rows in torch.randperm(SLOTS * LENGTH).split(MINIBATCH):
            x, a, old, advantage, target = (one[rows] for one in flat)
            ratio = (Normal(actor(x), log_std.exp()).log_prob(a).sum(-1) - old).exp()
            scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gained = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            loss = -gained + 0.5 * (critic(x).squeeze(-1) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    done_steps += SLOTS * LENGTH
    print(f"{done_steps} steps: a flow is {rewards.mean():+.3f} s faster than under SED")
envs.close()
