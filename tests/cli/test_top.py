"""dcgym top against a run whose traffic and loop are known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.session.runs import choose_run, list_runs
from dcgym.backends.names import named_runs
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.traffic import Flow, Plan
from tests.support.commands import run_here
from tests.support.waiting import wait_for
from tests.support.windows import best_of

pytestmark = pytest.mark.emulation

CORE_PORT = "s1-eth3"
UDP_SHARE = 1472 / 1514
Top = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other runs of this machine are none of these tests' business."""
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    yield


@pytest.fixture
def top(capfd: pytest.CaptureFixture[str]) -> Top:
    return partial(run_here, capfd, "top")


def overload(backend: Any) -> None:
    flows = tuple(
        Flow(source, target, "udp", rate_bps=10_000_000)
        for source, target in (("h1", "h3"), ("h2", "h4"))
    )
    backend.reset(NetworkEpisode(Plan("overload", 0, flows)))


def step(backend: Any, deadline_ns: int) -> None:
    backend.apply(rates_bps=np.full(4, 10_000_000, np.uint64))
    backend.advance(deadline_ns)
    backend.snapshot()


def core_of(sample: dict[str, Any]) -> dict[str, Any]:
    return next(dict(port) for port in sample["ports"] if port["name"] == CORE_PORT)


def take(top: Top) -> dict[str, Any]:
    done = top("--json", "--period", "1")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def stepped(make: Any) -> Any:
    """A run whose environment has taken 20 steps of 50 ms.

    It goes on without it; the collector keeps its telemetry fresh.
    """
    backend = make("dumbbell")
    overload(backend)
    deadline_ns = time.monotonic_ns()
    for _ in range(20):
        deadline_ns += 50_000_000
        step(backend, deadline_ns)
    return backend


def test_a_sample_shows_load_queue_rates_and_loop(stepped: Any, top: Top) -> None:
    sample: dict[str, Any] = {}

    def is_loaded() -> bool:
        sample.update(take(top))
        received_bps = [host["goodput_bps"] for host in sample["hosts"]]
        core = core_of(sample)
        return min(core["load"], core["drops_per_s"], *received_bps[2:]) > 0

    wait_for(is_loaded)
    assert sample["run"] == stepped.lab.process.run_id
    core = core_of(sample)
    assert 0 < core["backlog_bytes"] <= core["peak_bytes"] <= core["queue_bytes"] == 400_000
    hosts = {host["name"]: host for host in sample["hosts"]}
    assert hosts["h1"]["limit_bps"] == hosts["h1"]["link_bps"] == 10_000_000
    loop = sample["loop"]
    assert loop["interval_ms"] == pytest.approx(50)
    # One look more than steps: that of the reset.
    assert loop["steps"] == 21
    assert loop["action_latency_ms"] > 0
    assert loop["worst_overrun_ms"] >= loop["overrun_ms"] > 0


@pytest.mark.timing
def test_loads_rates_and_latencies_are_what_they_are(stepped: Any, top: Top) -> None:
    drops_per_s, goodput_bps = 10e6 / 8 / 1514, 10e6 * UDP_SHARE

    def error(sample: dict[str, Any]) -> float:
        """Return how far the rates are from what is known, as a part of what is allowed."""
        core, hosts = core_of(sample), {host["name"]: host for host in sample["hosts"]}
        received_bps = hosts["h3"]["goodput_bps"] + hosts["h4"]["goodput_bps"]
        return max(
            abs(core["load"] - 1) / 0.05,
            abs(core["drops_per_s"] / drops_per_s - 1) / 0.15,
            abs(received_bps / goodput_bps - 1) / 0.05,
        )

    sample = best_of(lambda: take(top), error, 1.0)
    assert error(sample) <= 1.0
    # 20 Mbit/s into 10 for over a second: the queue of 400 KB is full.
    assert core_of(sample)["backlog_bytes"] == pytest.approx(400_000, rel=0.01)
    assert sample["loop"]["action_latency_ms"] < 50


def test_a_free_running_loop_has_no_interval(make: Any, top: Top) -> None:
    backend = make("dumbbell")
    overload(backend)
    for _ in range(5):
        backend.apply(rates_bps=np.full(4, 10_000_000, np.uint64))
        backend.snapshot()
    loop = json.loads(top("--json", "--period", "0.1").stdout)["loop"]
    assert (loop["interval_ms"], loop["overrun_ms"], loop["steps"]) == (0, 0, 6)


def test_once_prints_every_port_and_host(make: Any, top: Top) -> None:
    backend = make("dumbbell")
    overload(backend)
    core = [port.name for port in backend.topology.switch_ports].index(CORE_PORT)
    wait_for(lambda: backend.snapshot().ports["backlog_bytes"][core] > 100_000)
    done = top("--once", "--period", "0.1")
    assert done.returncode == 0, done.stderr
    names = [port.name for port in backend.topology.switch_ports] + ["h1", "h2", "h3", "h4"]
    for name in names:
        assert f"\n{name} " in done.stdout
    # The busiest port comes first.
    assert done.stdout.index(CORE_PORT) < min(
        done.stdout.index(name) for name in names if name.startswith("s") and name != CORE_PORT
    )


def test_nothing_to_look_at_is_one_line(top: Top) -> None:
    done = top("--once")
    assert (done.returncode, done.stderr) == (1, "dcgym: no emulation is running on this machine\n")
    done = top("nosuch", "--once")
    assert done.returncode == 2 and done.stderr.startswith("dcgym: run: value 'nosuch'")
    assert top("--once", "--period", "0").returncode == 2


def test_several_runs_are_named(make: Any, top: Top) -> None:
    with named_runs("both"):
        backends = [make("dumbbell") for _ in range(2)]
    ids = sorted(f"both ({backend.lab.process.run_id})" for backend in backends)
    done = top("--once")
    assert done.returncode == 1
    expected = f"dcgym: several emulations are running, name one: {', '.join(ids)}\n"
    assert done.stderr == expected
    chosen = backends[1].lab.process.run_id
    done = top(chosen, "--once", "--period", "0.1")
    assert done.stderr == f"dcgym: run {chosen} has not begun an episode yet\n"
    overload(backends[1])
    assert json.loads(top(chosen, "--json", "--period", "0.1").stdout)["run"] == chosen


def test_a_dead_run_is_one_line(make: Any, top: Top) -> None:
    backend = make("dumbbell")
    run_id = backend.lab.process.run_id
    run = choose_run(run_id)
    os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: not run.alive)
    done = top(run_id, "--once")
    assert done.returncode == 1
    assert done.stderr == f"dcgym: run {run_id} is dead; 'dcgym clean' removes what is left of it\n"
    backend.close()
    assert list_runs() == [] and not list((Path(os.environ["DCGYM_RUN_DIR"])).iterdir())


def test_another_user_is_told_so(make: Any, tmp_path: Path) -> None:
    backend = make("dumbbell")
    ours = Path(tempfile.gettempdir())
    for folder in (tmp_path, *tmp_path.parents):
        if ours in folder.parents:
            folder.chmod(0o755)
    # Imported before the change of user, who may not be able to read this Python.
    code = (
        "import os\n"
        "from dcgym.backends.emulation.session.runs import choose_run\n"
        "from dcgym.backends.emulation.watch import RunView\n"
        "from dcgym.errors import BackendError\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    RunView(choose_run())\n"
        "except BackendError as error:\n    print(error)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == (
        f"run {backend.lab.process.run_id}: no permission to read process {os.getpid()}, "
        "be its user or root\n"
    ), done.stderr
