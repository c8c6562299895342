"""Forks of a process whose emulation runs: they end, and the emulation goes on as the parent's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emulation

END_S = 120.0
# Python 3.12 warns of forks of processes with threads, which an emulation has.
WARNINGS = ("-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning")

# What a fork does, then what becomes of it and of the emulation. Its exit is Python's own, which
# ends what nobody has closed. Another thread of the parent waits for a command all the time.
SCRIPT = """
import json, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
import dcgym
from dcgym.backends.emulation.session.runs import list_runs
from dcgym.errors import BackendError

def exit(env):
    pass

def close(env):
    env.close()

def step(env):
    try:
        env.step(env.action_space.sample())
    except BackendError as error:
        print(json.dumps(["refused", str(error)]), flush=True)

def reset(env):
    env.reset(seed=2)
    env.step(env.action_space.sample())
    print(json.dumps(["runs", sorted({run.id for run in list_runs()} - {own})]), flush=True)
    env.close()

env = dcgym.make_env(json.loads(sys.argv[1]))
env.reset(seed=1)
(own,) = (run.id for run in list_runs())
host, pipe = sys.argv[2:]
os.mkfifo(pipe)
backend = env.unwrapped.backend
execute = backend.lab.execute if host == "h1" else backend.execute
threads = ThreadPoolExecutor(1)
command = threads.submit(execute, host, "cat", pipe, timeout_s=100.0)
writable = os.open(pipe, os.O_WRONLY)
for way in (exit, close, step, reset):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        way(env)
        sys.exit(3)
    # A child that hangs is not waited for: this process is killed with its test.
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    env.step(env.action_space.sample())
    print(json.dumps([way.__name__, code, [run.id for run in list_runs()] == [own]]), flush=True)
os.write(writable, b"the command's own")
os.close(writable)
print(json.dumps(["command", command.result()]))
threads.shutdown()
env.close()
print(json.dumps(["left", [run.id for run in list_runs()]]))
"""


@pytest.mark.parametrize(
    "config, host",
    [
        ({"env": "FlowControl-v1", "backend": "emulation", "preflight": False}, "h1"),
        ({"env": "LoadBalancing-v1", "backend": "emulation", "interval": "50ms"}, "c1"),
    ],
    ids=["network", "pool"],
)
def test_a_fork_ends_and_leaves_the_emulation_to_its_parent(
    config: dict[str, object], host: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", SCRIPT, json.dumps(config), host, tmp_path / "pipe"],
        env={**os.environ, "DCGYM_RUN_DIR": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    refused, (_, runs) = lines.pop(2), lines.pop(3)
    assert refused == ["refused", "the emulator is not running; call reset() first"]
    assert len(runs) == 1, "the fork's own emulation"
    ways = ("exit", "close", "step", "reset")
    assert lines == [
        *([way, 3, True] for way in ways),
        *(["command", "the command's own"], ["left", []]),
    ]
