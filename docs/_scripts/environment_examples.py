"""An example for the page of each environment; ``make docs-check`` runs them."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

EXAMPLES = {
    "congestion_control": """
import gymnasium as gym
import dcgym

# Six hosts send over one link of 20 Mbit/s; the agent limits all of them to a third. As root.
env = gym.make(
    "dcgym/CongestionControl-v2",
    topology={"name": "dumbbell", "hosts": 6, "rate": "20Mbit"},
    interval="100ms",
)
observation, info = env.reset(seed=1)
for _ in range(20):
    shares = [1 / 3] * 6
    observation, reward, terminated, truncated, info = env.step(shares)
print(reward, info["metrics"]["goodput_bps"], info["metrics"]["queue_bytes"])
env.close()
""",
    "path_balancing": """
import gymnasium as gym
import dcgym

# The first of two spines gets ten times the flows of the second. As root.
env = gym.make(
    "dcgym/PathBalancing-v2",
    topology={"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
    traffic="web-search-0.3",
)
observation, info = env.reset(seed=1)
for _ in range(20):
    weights = [1.0, 0.1] * 2  # of each leaf's two uplinks
    observation, reward, terminated, truncated, info = env.step(weights)
print(reward, info["path_weights"], info["uplink_loads"])
env.close()
""",
    "flow_control": """
import gymnasium as gym
import dcgym

# The window of one flow beside a Reno flow, in the packet twin. No root.
env = gym.make("dcgym/FlowControl-v1", backend="simulation", interval="20ms")
observation, info = env.reset(seed=1)
for step in range(100):
    # A tenth less where a round trip is three times the least one.
    observation, reward, terminated, truncated, info = env.step(
        [-0.15 if observation[-4] > 2 / 3 else 0.0]
    )
print(reward, info["flow_cwnd"], info["flow_rate_bps"], info["flow_rtt_us"])
env.close()
""",
    "parallel_flow_control": """
import dcgym

# One policy for four flows that share a link.
env = dcgym.parallel_env(
    "FlowControl-v1",
    backend="simulation",
    topology={"name": "dumbbell", "hosts": 8, "rate": "48Mbit"},
    flows=4,
    action="rate",
)
observations, infos = env.reset(seed=1)
for step in range(20):
    actions = {agent: [-0.5] for agent in env.agents}  # a quarter of its link for each
    observations, rewards, terminations, truncations, infos = env.step(actions)
print(rewards)
env.close()
""",
    "joint": """
import gymnasium as gym
import dcgym

# Rates of four hosts, and weights of two leaves' uplinks. As root.
env = gym.make(
    "dcgym/Joint-v2",
    topology={"name": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
)
observation, info = env.reset(seed=1)
for _ in range(20):
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
print(reward, info["rate_shares"], info["path_weights"])
env.close()
""",
    "load_balancing": """
import gymnasium as gym
import dcgym

# The strong servers get twice the weight of the weak ones. No root.
env = gym.make("dcgym/LoadBalancing-v1", scenario={"preset": "yao-sim-8", "load": 0.9})
observation, info = env.reset(seed=1)
for _ in range(100):
    action = [-1 / 6] * 4 + [1 / 6] * 4  # 8 ** (1 / 6) is twice 8 ** (-1 / 6)
    observation, reward, terminated, truncated, info = env.step(action)
print(info["time_s"], reward, info["metrics"]["ended_fct_us_mean"])
env.close()
""",
    "central_load_balancing": """
import gymnasium as gym
import dcgym

# One agent sets the weights of both balancers. No root.
env = gym.make("dcgym/CentralLoadBalancing-v1")
observation, info = env.reset(seed=1)
for _ in range(100):
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
print(observation.shape, reward)
env.close()
""",
    "job_assignment": """
import gymnasium as gym
import dcgym

# Each job goes to the server that is done first with what it has. No root.
env = gym.make("dcgym/JobAssignment-v0")
observation, info = env.reset(seed=1)
total, is_over = 0.0, False
while not is_over:
    server = info["servers"]["remaining_ms"].argmin()
    observation, reward, is_over, truncated, info = env.step(server)
    total += reward
print(total, info["time_s"])
env.close()
""",
    "accelerator_balancing": """
import gymnasium as gym
import dcgym

# 64 servers with two SmartNICs each; a step is ten simulated seconds. No root.
env = gym.make("dcgym/AcceleratorBalancing-v0", scenario="p4wise-64", rate=900)
observation, info = env.reset(seed=1)
print(info["metrics"]["latency_ms_p99"], info["weights"])
observation, reward, terminated, truncated, info = env.step(2)  # accelerators: 0 to 1
print(info["metrics"]["latency_ms_p99"], info["weights"], reward)
env.close()
""",
    "vip_placement": """
import gymnasium as gym
import dcgym

# Each VIP goes to the switch after which the fullest link or table is least full. No root.
env = gym.make("dcgym/VipPlacement-v0")
observation, info = env.reset(seed=1)
total, is_over = 0.0, False
while not is_over:
    mask = info["action_mask"][:-1] == 1  # the last action means the muxes
    mru = info["candidates"]["mru"]
    action = mru.argmin() if mask[mru.argmin()] else len(mask)
    observation, reward, is_over, truncated, info = env.step(action)
    total += reward
print(total, info["metrics"]["switch_share"], info["metrics"]["link_max"])
env.close()
""",
    "dip_placement": """
import gymnasium as gym
import dcgym

# The rack that sends most to a VIP serves itself, as long as DIPs, tables and moves allow it.
env = gym.make("dcgym/DipPlacement-v0")
observation, info = env.reset(seed=1)
total, is_over = 0.0, False
while not is_over:
    action = info["action_mask"].argmax()  # the last action means the next VIP
    observation, reward, is_over, truncated, info = env.step(action)
    total += reward
print(total, info["metrics"]["local_share"], info["metrics"]["mlu"])
env.close()
""",
    "vip_migration": """
import gymnasium as gym
import dcgym

# VIPs move where the largest utilisation falls by more than 0.05, over three hours. No root.
env = gym.make("dcgym/VipMigration-v0")
observation, info = env.reset(seed=1)
is_over = False
while not is_over:
    observation, reward, is_over, truncated, info = env.step(4)
    print(info["metrics"]["switch_share"], info["metrics"]["moved_share"])
env.close()
""",
    "parallel_load_balancing": """
import dcgym

# An agent for each of six balancers. No root.
env = dcgym.parallel_env("LoadBalancing-v1", scenario="large-20")
observations, infos = env.reset(seed=1)
for _ in range(20):
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    observations, rewards, terminated, truncated, infos = env.step(actions)
print(rewards)
env.close()
""",
}
