"""What the storm runs: commands and programs, small enough to end within seconds."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dcgym.errors import ConfigError
from dcgym.policies.learned.apart import LOG_FILE
from dcgym.policies.learned.states import read_state
from tests.storm.learners import TRAININGS, Training
from tests.storm.programs import PROGRAMS
from tests.storm.results import has_ended, last_weights, loads, rows, table, trained

__all__ = ["WORKLOADS", "Workload"]

Command = Callable[[Path], list[str] | None]


@dataclass(frozen=True)
class Workload:
    """Something that runs.

    Attributes:
        name: Its name in the table.
        command: The words that run what is left to do, for the folder of results; None where
            nothing is left.
        result: What all ends of it have in common, for the folder of results.
        promise: What that is.
        files: Texts in the working folder, by their names.
        is_command: Whether users call it, who want one line where something broke.
        check: What holds of the results after each kill; raises where it does not.
        kept: Results that a broken life leaves on purpose.
    """

    name: str
    command: Command
    result: Callable[[Path], object] = has_ended
    promise: str = "ends well"
    files: Mapping[str, str] = field(default_factory=dict)
    is_command: bool = True
    check: Callable[[Path], object] = has_ended
    kept: frozenset[str] = frozenset()


def _dcgym(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.storm.command", *words]


def _command(*words: str) -> Command:
    """Return the same command each time."""
    return lambda out: _dcgym(*words, "--out", str(out))


def _recording(*words: str) -> Command:
    """Return a command that begins anew: a data set is there whole, or not at all."""

    def command(out: Path) -> list[str]:
        shutil.rmtree(out / DATA, ignore_errors=True)
        return _dcgym("record", *words, "--name", DATA, "--out", str(out))

    return command


def _program(name: str) -> Workload:
    def command(out: Path) -> list[str]:
        return [sys.executable, "-m", "tests.storm.programs", name]

    return Workload(name.replace("_", " "), command, is_command=False)


def _training(one: Training) -> Workload:
    """Return a training, which is resumed until it has all of its steps."""
    settings = [word for setting in one.settings for word in ("--set", setting)]

    def command(out: Path) -> list[str] | None:
        try:
            left = one.steps - read_state(out)[1].steps
        except ConfigError:
            begins = ("--algo", one.algo, *one.words, *settings, "--steps", str(one.steps))
            return _dcgym("train", *begins, "--out", str(out))
        if left <= 0:
            return None
        return _dcgym("train", "--resume", "--steps", str(left), "--out", str(out))

    result = last_weights if one.is_exact else lambda out: trained(out, one.steps)
    promise = "same bits" if one.is_exact else "all steps, a policy"
    return Workload(f"train {one.name}", command, result, promise, CONFIGS, check=loads, kept=KEPT)


DATA = "sed-v0"
# What a library printed, where a training broke.
KEPT = frozenset({LOG_FILE})
POOL = ("--env", "LoadBalancing-v1")
RELAY = """
topology:
  name: dumbbell
  rate: 100Mbit
  tiers: {core: {rate: 20Mbit, queue: 100KB, delay: {time: 5ms, jitter: 1ms}}}
traffic: pairs
"""
APPS = """
topology: {name: dumbbell, hosts: 4, rate: 100Mbit}
traffic:
  apps:
    h1: {command: python3 -m http.server 8000, background: true}
    h2: {command: "curl -sS -o /dev/null --retry 9 --retry-connrefused http://h1:8000/"}
    h3:
      - {command: [iperf3, -s, -1]}
      - {command: [ping, -i, "0.1", "{h1}"], duration: 2s}
    h4: {command: "iperf3 -c {h3} -t 1 --json", start: 500ms}
"""
RELAYED = ("--config", "relay.yaml", "--seconds", "2")
WITH_APPS = ("--config", "apps.yaml", "--seconds", "3")
RECORD = ("--policy", "sed", "--episodes", "3", "--seconds", "2")
SWEEP = (
    "--set",
    "scenario.load=0.3,0.5",
    "--policies",
    "random,sed",
    "--seeds",
    "2",
    "--seconds",
    "2",
)
ONE = ("--seeds", "1", "--seconds", "1")
EMULATED_SWEEP = ("--set", "topology.rate=50Mbit,100Mbit", "--policy", "cubic", *ONE)
BENCH = ("bench", "quick", "--policies", "cubic,dctcp", *ONE)
PARK = ("bench", "park", "--seconds", "2", "--jobs", "2")
TWIN_BENCH = (*PARK, "--policies", "random,least-work", "--seeds", "2")
TRAINED_BENCH = (*PARK, "--policies", "random,cma-es", "--seeds", "1", "--train-seconds", "2")
TWIN_ERROR = ("twin-error", "congestion", "--cases", "dumbbell-10", "--policies", "cubic", *ONE)

CONFIGS = {
    "relay.yaml": RELAY,
    "apps.yaml": APPS,
    "fast.yaml": "{env: CongestionControl-v2, topology: dumbbell, interval: 20ms}",
    "levels.yaml": "{env: LoadBalancing-v1, action: discrete}",
}

COMMANDS = (
    Workload("run twin", _command("run", *POOL, "--seconds", "60"), table, "same table"),
    Workload("run", _command("run", "--policy", "dctcp", "--seconds", "2")),
    Workload("run pool", _command("run", *POOL, "--backend", "emulation", "--seconds", "2")),
    Workload("run iperf3", _command("run", "--generator", "iperf3", "--seconds", "2")),
    Workload("run relay", _command("run", *RELAYED), files=CONFIGS),
    Workload("run apps", _command("run", *WITH_APPS), files=CONFIGS),
    Workload("record twin", _recording(*POOL, *RECORD), table, "same data"),
    Workload("record", _recording(*POOL, *RECORD, "--backend", "emulation")),
    Workload("sweep twin", _command("sweep", *POOL, *SWEEP), table, "same table"),
    Workload("sweep", _command("sweep", *EMULATED_SWEEP), rows, "same rows"),
    Workload("bench", _command(*BENCH), rows, "same rows"),
    Workload("bench twin", _command(*TWIN_BENCH), table, "same table"),
    Workload("bench with a training", _command(*TRAINED_BENCH), rows, "same rows"),
    Workload("twin-error", _command(*TWIN_ERROR), rows, "same rows"),
)
WORKLOADS = (
    *COMMANDS,
    *(_program(name) for name in PROGRAMS),
    *(_training(one) for one in TRAININGS),
)
