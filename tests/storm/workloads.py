"""What the storm runs: commands and programs, small enough to end within seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dcgym.errors import ConfigError
from dcgym.policies.learned.states import read_state
from tests.storm.results import best_weights, has_ended, rows, table, trained

__all__ = ["WORKLOADS", "Workload"]

Command = Callable[[Path], list[str] | None]
CLEAN = (sys.executable, "-m", "dcgym", "clean", "--json")


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
        clean: The command that removes what no other one does.
    """

    name: str
    command: Command
    result: Callable[[Path], object] = has_ended
    promise: str = "ends well"
    files: Mapping[str, str] = field(default_factory=dict)
    is_command: bool = True
    clean: tuple[str, ...] = CLEAN


def _dcgym(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.storm.command", *words]


def _command(*words: str) -> Command:
    """Return the same command each time."""
    return lambda out: _dcgym(*words, "--out", str(out))


def _program(name: str) -> Workload:
    def command(out: Path) -> list[str]:
        return [sys.executable, "-m", "tests.storm.programs", name]

    return Workload(name.replace("_", " "), command, is_command=False)


def _training(algo: str, steps: int, *words: str, settings: tuple[str, ...] = ()) -> Workload:
    """Return a training, which is resumed until it has all of its steps."""
    given = [word for one in settings for word in ("--set", one)]

    def command(out: Path) -> list[str] | None:
        try:
            done = read_state(out)[1].steps
        except ConfigError:
            new = ("--algo", algo, *words, *given, "--steps", str(steps))
            return _dcgym("train", *new, "--out", str(out))
        left = steps - done
        if left <= 0:
            return None
        return _dcgym("train", "--resume", "--steps", str(left), "--out", str(out))

    is_exact = algo in ("cma-es", "reinforce") and "emulation" not in words
    result = best_weights if is_exact else lambda out: trained(out, steps)
    promise = "same bits" if is_exact else "all steps, a policy"
    return Workload(f"train {algo}{' emulated' * ('emulation' in words)}", command, result, promise)


POOL = ("--env", "LoadBalancing-v1")
SHORT = "{preset: testbed-7}"
SB3 = ("batch_size=8",)
REPLAY = (*SB3, "learning_starts=16")
ROLLOUT = (*SB3, "n_steps=16", "n_epochs=1")
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
SWEEP = ("--set", "scenario.load=0.3,0.5", "--policies", "random,sed", "--seeds", "2")
BENCH = ("bench", "quick", "--policies", "cubic,dctcp", "--seeds", "1", "--seconds", "1")

CHEAP = (
    Workload("run twin", _command("run", *POOL, "--seconds", "60"), table, "same table"),
    Workload("run", _command("run", "--policy", "dctcp", "--seconds", "2")),
    Workload("sweep", _command("sweep", *POOL, *SWEEP, "--seconds", "2"), table, "same table"),
    _training("cma-es", 20_000, *POOL),
    Workload(
        "record",
        _command("record", *POOL, "--policy", "sed", "--episodes", "3", "--name", "sed-v0"),
        table,
        "same data",
    ),
)
EMULATED = (
    Workload("run pool", _command("run", *POOL, "--backend", "emulation", "--seconds", "2")),
    Workload("run iperf3", _command("run", "--generator", "iperf3", "--seconds", "2")),
    Workload(
        "run relay",
        _command("run", "--config", "relay.yaml", "--seconds", "2"),
        files={"relay.yaml": RELAY},
    ),
    Workload(
        "run apps",
        _command("run", "--config", "apps.yaml", "--seconds", "3"),
        files={"apps.yaml": APPS},
    ),
    Workload("bench", _command(*BENCH), rows, "same rows"),
)
WORKLOADS = (*CHEAP, *EMULATED)
