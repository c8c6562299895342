"""A topology, a reward and a policy of one's own, in 40 lines: python own_study.py [STEPS]."""

import sys

import numpy as np

import dcgym
from dcgym.policies import POLICIES
from dcgym.policies.base import BoundPolicy
from dcgym.tasks.network.rewards import NETWORK_REWARDS
from dcgym.topologies import TOPOLOGIES, Link, Node, Topology

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100


def star(hosts: int = 3) -> Topology:
    """Some hosts at one switch."""
    names = [f"h{number + 1}" for number in range(hosts)]
    nodes = [Node(name, "host", number) for number, name in enumerate(names)]
    links = [Link(name, "s1", 10_000_000, 100_000, 30_000) for name in names]
    return Topology("star", (*nodes, Node("s1", "switch", 0)), tuple(links))


class BackOff(BoundPolicy):
    """Half the rate of every host while any queue is above a tenth of its limit."""

    def act(self, observation, info):
        """Return the share of each host."""
        share = 0.5 if np.max(observation) > 0.1 else 1.0
        return np.full(self.task.action_space.shape, share, np.float32)


TOPOLOGIES.add("star", star)
NETWORK_REWARDS.add("short_queues", lambda seen: -seen.queues.mean(axis=-1), "Short queues.")
POLICIES["congestion"].add("back-off", BackOff, "Back off from queues.")

env = {"topology": "star", "traffic": "incast", "backend": "simulation", "features": ["backlog"]}
env |= {"reward": {"goodput": 1.0, "short_queues": 0.5}, "action": "direct", "interval": "10ms"}
print(dcgym.compare(env, ["cubic", "back-off"], seeds=range(2), seconds=STEPS * 0.01))
