"""Steps the tutorial's topology, reward and policy in a stand-in for a network; no root."""

import dcgym
from dcgym.testing import FakeBackend

env = dcgym.make_env(
    topology={"name": "front-end", "clients": 3},
    traffic="incast",
    reward="short_queue",
    backend=FakeBackend,
    max_steps=200,
)
policy = dcgym.make_policy("shared-aimd", env)
observation, info = env.reset(seed=1)
rewards = []
for _ in range(200):
    observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
    rewards.append(reward)
env.close()
print(f"mean reward of the last 100 steps: {sum(rewards[100:]) / 100:.2f}")
