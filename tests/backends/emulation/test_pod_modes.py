"""Where balancers of an emulated pool run, and what keeps connections on their servers."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.backends.emulation.session.process import pid_of
from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.tasks.balancing import Event, Scenario, make_scenario
from dcgym.tasks.balancing.records import COMPLETED, OUTCOMES
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import constant, exponential

pytestmark = pytest.mark.emulation

ID, SECOND = "dcgym/CentralLoadBalancing-v1", 10**9
BROKEN = OUTCOMES.index("pcc_violations")
# An answer beyond the first window (RFC 6928: ten segments) ends only if the client's ACKs, which
# pass a balancer, find its server.
LARGE = Application("large", (Stage("cpu", constant("1s")),), response_bytes=200_000)


@contextlib.contextmanager
def environment(of: Scenario, steps: int, rule: str = "weighted", **options: str) -> Iterator[Any]:
    """An environment of two balancers, whose backend has these options."""
    made = gym.make(
        ID,
        backend={"name": "emulation", **options},
        scenario=of.to_dict(),
        rule=rule,
        interval="500ms",
        max_steps=steps,
        record_limit=10**6,
    )
    with contextlib.closing(made):
        yield made


def weighing(env: Any, server: int | None = None) -> Any:
    """Return the action of equal weights, or that gives one server ten times that of the others."""
    weights = np.ones(7) if server is None else np.where(np.arange(7) == server, 1.0, 0.1)
    return env.unwrapped.system.binding.task().action_map.from_weights(np.tile(weights, 2))


def in_emulator(env: Any, *argv: str) -> str:
    """Run a command in the network namespace of the switches."""
    pid = pid_of(env.unwrapped.system.backend.session.process.pidfd)
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def programs_at_xdp(env: Any) -> dict[str, tuple[str, int]]:
    """Return name and mode of the programs at XDP's hook by interface; mode 1: in the driver."""
    links = json.loads(in_emulator(env, "ip", "-j", "link"))
    return {
        link["ifname"]: (link["xdp"]["prog"]["name"], link["xdp"]["mode"])
        for link in links
        if "xdp" in link
    }


def sent_at_xdp(env: Any, interfaces: list[str]) -> int:
    """Return how many packets interfaces have sent from XDP's hook."""
    counts = [in_emulator(env, "ethtool", "-S", name) for name in interfaces]
    return sum(int(count) for text in counts for count in re.findall(r"_xdp_tx: (\d+)", text))


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("hook", ["tc", "xdp"])
def test_flows_are_served_and_steered_at_either_hook(hook: str, transport: str) -> None:
    light = make_scenario("testbed-7", load=0.1, service=exponential("20ms"))
    with environment(light.changed(transport=transport), 8, hook=hook) as env:
        env.reset(seed=1)
        for preferred in (0, 6):
            for _ in range(4):
                env.step(weighing(env, preferred))
            flows = env.unwrapped.flow_records()
            assert len(flows) > 20 and (flows["outcome"] == COMPLETED).all()
            served = np.bincount(flows["server"], minlength=7)
            # The others get what goes before ten flows wait at the preferred one.
            assert served[preferred] > 2 * np.delete(served, preferred).max()
        programs = programs_at_xdp(env)
        own = sorted(name for name, program in programs.items() if program == ("l4lb_xdp", 1))
        assert [name.split("-")[0] for name in own] == ([] if hook == "tc" else ["b1", "b2"])
        packets = int(env.unwrapped.system.backend.read().seen.packets.sum())
        assert packets > 40 and (hook == "tc" or sent_at_xdp(env, own) >= packets)


FAILURE = (Event(SECOND, "balancer-failure", 0), Event(2 * SECOND, "balancer-recovery", 0))
DRAIN = (Event(SECOND, "drain-server", 0),)


@pytest.mark.parametrize(
    ("events", "rule", "options", "breaks"),
    [
        # The survivor has no entry of the flows of the dead one.
        (FAILURE, "weighted", {}, True),
        (FAILURE, "weighted", {"consistency": "table", "hook": "xdp"}, True),
        # By rule it is the cookie for Charon's alone.
        (FAILURE, "sapp", {"consistency": "table"}, True),
        (FAILURE, "sapp", {"consistency": "rule"}, False),
        (FAILURE, "weighted", {"consistency": "cookie"}, False),
        (FAILURE, "weighted", {"consistency": "cookie", "hook": "xdp"}, False),
        # Another pool, another server, unless something remembers the flow.
        (DRAIN, "ecmp", {"consistency": "none"}, True),
        (DRAIN, "ecmp", {"consistency": "table"}, False),
    ],
)
def test_connections_survive_what_their_consistency_survives(
    events: tuple[Event, ...], rule: str, options: dict[str, str], breaks: bool
) -> None:
    busy = make_scenario("testbed-7", load=0.8).changed(events=events, applications=(LARGE,))
    with environment(busy, 9, rule, **options) as env:
        env.reset(seed=1)
        violations = 0.0
        for _ in range(9):
            *_, info = env.step(weighing(env))
            violations += info["metrics"]["pcc_violations"]
        outcomes = env.unwrapped.flow_records()["outcome"]
        assert (violations > 0) == ((outcomes == BROKEN).any()) == breaks
        assert (outcomes == COMPLETED).sum() > 20
        assert not (outcomes == OUTCOMES.index("lost")).any()


def test_a_hook_that_the_kernel_refuses_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_importable()
    from dcgym.backends.emulation.emulator import pod_network

    class RefusingBalancer:
        def attach(self, ifindex: int, peer: int) -> None:
            raise BackendError("cannot attach l4lb_xdp: Operation not supported")

    monkeypatch.setattr(pod_network, "run", lambda *argv: "")
    switch = pod_network.BalancerSwitch.__new__(pod_network.BalancerSwitch)
    switch._topology = SimpleNamespace(ports=lambda _: [SimpleNamespace(name="lo", peer_name="lo")])
    switch.name, switch.balancer = "b1", RefusingBalancer()
    with pytest.raises(FeatureNotSupported, match=r"hook xdp.*Operation not supported"):
        switch.open("xdp")
