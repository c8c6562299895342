"""What runs on a network record: ports and hosts over time, flows, applications, events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import APPLICATIONS, CONGESTION_CONTROL, ENDED_FLOWS, PROCESSES
from dcgym.envs.bindings.traffic import TrafficBinding
from dcgym.envs.session import Session
from dcgym.monitors import StateWords
from dcgym.suites.flows import describe_flows, flow_table
from dcgym.suites.recorders.base import Columns, Outcome, Recorder, Row, StepResult
from dcgym.suites.spec import Arguments, RunSpec
from dcgym.suites.statistics import Sums, is_steady, summarise
from dcgym.tasks.network.interval import Rises, rises
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.traffic.analysis.fairness import fairness_of_rates, gather_spans, under_way
from dcgym.traffic.analysis.progress import find_origin_ns
from dcgym.traffic.plans.applications import APPS, AppPlan

__all__ = ["NetworkRecorder", "with_overrides"]

Words: TypeAlias = npt.NDArray[np.uint64]

# What the decisions show of themselves, and the column of each.
DECISIONS = {
    "rate_shares": "rate_share",
    "path_weights": "path_weight",
    "uplink_loads": "uplink_load",
}
TIMING = ("action_latency_us", "observation_age_us", "deadline_overrun_us")


class NetworkRecorder(Recorder):
    """Records a run on a network.

    Args:
        session: The copy that runs.
        spec: The run.
    """

    def __init__(self, session: Session, spec: RunSpec) -> None:
        super().__init__(session, spec)
        network = self.system.binding
        assert isinstance(network, TrafficBinding), "the settings say so"
        self._network, task = network, network.task()
        self._layout = StateWords(len(task.topology.switch_ports), len(task.topology.hosts))
        receivers = task.plan.receivers
        is_receiver = [host.name in receivers for host in task.topology.hosts]
        self._receivers = np.flatnonzero(is_receiver)
        self._received_at = self._layout.hosts["rx_bytes"].start + self._receivers
        self._began_ns = 0
        # When the first step after the warm-up began, and the words of the network's state then.
        self._counted_from: tuple[int, Words] | None = None
        # When each step after the warm-up ended, and what each receiver had got by then.
        self._received: list[tuple[int, Words]] = []

    @classmethod
    def policy_seed(cls, seed: int, number: int) -> int:
        """Return the run's own seed: a network has one agent.

        Args:
            seed: Seed of the run.
            number: Number of the agent.
        """
        return seed

    @classmethod
    def configure(cls, spec: RunSpec, overrides: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments; applications print into the folder of the run.

        Args:
            spec: The run.
            overrides: Arguments that the policy asks for.
        """
        config = with_overrides(spec.env, overrides)
        traffic = config.get("traffic")
        if spec.folder is None or not isinstance(traffic, Mapping) or APPS not in traffic:
            return config
        return {**config, "traffic": {"output": str(Path(spec.folder) / APPS), **traffic}}

    def begin(self) -> None:
        """Note when the episode began."""
        self._began_ns = int(self._network.read_ns[0])

    def row(self, result: StepResult) -> Row:
        """Flatten a step; arrays become one column an entry.

        Args:
            result: What the step led to.
        """
        info, row = result.infos[0], self.common_row(result)
        self._count(row["time_s"])
        named: list[tuple[str, object]] = [
            *info["metrics"].items(),
            *((f"reward_{name}", value) for name, value in info["reward_terms"].items()),
            *((name, info[name]) for name in TIMING),
            *((column, info[name]) for name, column in DECISIONS.items() if name in info),
            *_parts(result.actions[0]),
        ]
        for name, value in named:
            values = np.asarray(value, dtype=np.float64)
            if values.ndim == 0:
                row[name] = float(values)
            else:
                row.update({f"{name}_{i}": float(entry) for i, entry in enumerate(values.ravel())})
        return row

    def _count(self, time_s: float) -> None:
        """Keep what the network has counted, from the first step after the warm-up on."""
        before, after = self._network.last_states
        if self._counted_from is None:
            if not is_steady(np.array(time_s), self.spec.warmup_s):
                return
            self._counted_from = int(before.time_ns[0]), before.words[0].copy()
            self._note_received(before)
        self._note_received(after)

    def _note_received(self, state: NetworkState) -> None:
        self._received.append((int(state.time_ns[0]), state.words[0, self._received_at]))

    def finish(self, columns: Columns) -> Outcome:
        """Cut what still runs, and return metrics, flows, applications and events.

        Args:
            columns: The steps, one array a quantity.
        """
        network, task = self._network.running, self._network.task()
        ended_ns, fidelity = int(network.apply(NOTHING)[0]), self.session.fidelity(0)
        sums = self._sums()
        network.apply(NetworkCommands(cuts_flows=True))
        flows, apps = network.records(ENDED_FLOWS, 0), network.records(APPLICATIONS, 0)
        processes = network.records(PROCESSES, 0)
        details = {
            "congestion_control": dict(network.records(CONGESTION_CONTROL, 0)),
            "events": self.system.event_records(0),
            **({"apps": apps} if apps else {}),
            **({"processes": processes} if processes else {}),
        }
        warmup_s = self.spec.warmup_s
        found = describe_flows(task, flows, self._began_ns, ended_ns, warmup_s)
        metrics = summarise(columns, warmup_s, sums, self._jain(flows)) | found.metrics
        details |= {"flow_sizes": found.flow_sizes, "plan": found.plan}
        told = self.system.flow_records(0)
        table = flow_table(told, [host.name for host in task.topology.hosts])
        return Outcome(metrics, table, fidelity, details)

    def _sums(self) -> Sums:
        """Return what was counted since the warm-up, between steps too."""
        if self._counted_from is None:
            return Sums()
        (began_ns, before), (_, after) = self._counted_from, self._network.last_states
        ports = Rises(after.words[0], before, self._layout.port_counters)
        received = Rises(after.words[0], before, self._layout.host_counters)["rx_bytes"]
        return Sums(
            seconds=(int(after.time_ns[0]) - began_ns) / 1e9,
            goodput_bytes=float(received.sum()),
            drops=float(ports["drops"].sum()),
            marks=float(ports["marks"].sum()),
        )

    def _jain(self, flow_records: npt.NDArray[np.void]) -> float:
        """Return Jain's index of the receivers' rates since the warm-up, while they compete.

        Of the whole run: steps of 50 ms see a few packets each, so that a mean of their indices
        says more about packet timing than about fairness.
        """
        if self._counted_from is None:
            return math.nan
        times_ns, received = (np.array(part) for part in zip(*self._received, strict=True))
        task = self._network.task()
        plan, hosts = task.plan, [host.name for host in task.topology.hosts]
        is_under_way = np.ones((len(times_ns) - 1, len(self._receivers)), np.bool_)
        # Nobody knows when applications have something to send.
        if not isinstance(plan, AppPlan):
            origin_ns = find_origin_ns(plan, flow_records, self._began_ns)
            spans = gather_spans(plan, flow_records, hosts, origin_ns)
            is_under_way = under_way(spans, times_ns, self._receivers)
        got_bytes = rises(received[1:], received[:-1])
        return fairness_of_rates(got_bytes, is_under_way, np.diff(times_ns))


def with_overrides(env: Arguments, overrides: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration with what a policy asks for.

    A policy says whether switches mark; how they do stays the configuration's.

    Args:
        env: The configuration.
        overrides: What the policy asks for.
    """
    config = {**env, **overrides}
    if overrides.get("marking") is True and isinstance(env.get("marking"), Mapping):
        config["marking"] = env["marking"]
    return config


def _parts(action: object) -> list[tuple[str, object]]:
    if isinstance(action, Mapping):
        return [(f"action_{name}", part) for name, part in action.items()]
    return [("action", action)]
