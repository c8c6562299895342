"""A topology, a reward and a policy for dcgym; docs/tutorials/your_own.md."""

import numpy as np

from dcgym.policies import POLICIES
from dcgym.policies.base import task_of
from dcgym.tasks.network.rewards import NETWORK_REWARDS, RewardInputs
from dcgym.topologies import TOPOLOGIES, Link, Node, Topology
from dcgym.units import parse_rate, parse_size

SHORT_QUEUE = 0.05  # of the queue's limit


def front_end(clients: int = 3, rate: str = "20Mbit", server_rate: str = "10Mbit") -> Topology:
    """Clients and one server on a switch; the server's link is the bottleneck."""
    hosts = [Node(f"h{i + 1}", "host", i) for i in range(clients + 1)]
    hosts = [Node(f"h{i + 1}", "host", i) for i in range(clients + 1)]
    rates = [rate] * clients + [server_rate]  # the server is the last host
    links = [
        Link(
            host.name,
            "s1",
            parse_rate(one),
            queue_bytes=parse_size("400KB"),
            mark_bytes=parse_size("30KB"),
        )
        for host, one in zip(hosts, rates, strict=True)
    ]
    return Topology("front-end", (*hosts, Node("s1", "switch", 0)), tuple(links))


def short_queue(inputs: RewardInputs) -> np.ndarray:
    """How full the server's link is, less what the fullest queue holds beyond SHORT_QUEUE."""
    received = inputs.goodput_shares.max(axis=-1)  # the server receives most
    return received - np.maximum(0.0, inputs.queues.max(axis=-1) - SHORT_QUEUE)


class SharedAimd:
    """One share for all hosts: a little more in each interval, half where the queue is long."""

    name = "shared-aimd"

    def __init__(self, gain: float = 0.01) -> None:
        """Choose how much the share grows in an interval."""
        self._gain = gain

    def env_overrides(self) -> dict[str, object]:
        """Leave loss and marking to the rates: hosts run CUBIC."""
        return {"congestion_control": "cubic", "marking": False}

    def bind(self, env: object) -> "SharedAimd":
        """Learn the network, and begin with a small share."""
        task = task_of(env)
        self._map, self._hosts = task.rate_map, len(task.topology.hosts)
        self._longest = SHORT_QUEUE * max(port.queue_bytes for port in task.topology.switch_ports)
        self._share = 0.1
        return self

    def act(self, observation: np.ndarray, info: dict) -> np.ndarray:
        """Return the next shares."""
        is_long = info["metrics"]["queue_bytes"] > self._longest
        self._share = self._share / 2 if is_long else self._share + self._gain
        self._share = float(np.clip(self._share, 0.02, 1.0))
        return self._map.from_shares(np.full(self._hosts, self._share))


TOPOLOGIES.add("front-end", front_end)
NETWORK_REWARDS.add("short_queue", short_queue, "a full link, less a long queue")
POLICIES["congestion"].add("shared-aimd", SharedAimd, "one share for all, halved at long queues")
