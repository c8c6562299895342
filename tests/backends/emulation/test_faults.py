"""What is left on the machine after things were killed: nothing."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.session.runs import Run, clean_dead_runs, list_runs, record_run
from dcgym.errors import BackendError
from dcgym.testing import OneNetwork
from dcgym.traffic import Plan, make_plan
from tests.support.emulators import (
    Machine,
    Owner,
    Victim,
    algorithms,
    child_pids,
    describe,
    inner_pid,
    machine_bpf,
    read_proc,
    start_time,
)
from tests.support.networks import begin
from tests.support.waiting import wait_for, wait_until_empty

pytestmark = pytest.mark.emulation

# Each takes the time of a build; `make kills` has hundreds, of all that runs.
KILLS = 6
SURVIVORS = 2
# The kernel frees what was released when it has time to, and emulators of other tests come and go.
RELEASE_DEADLINE_S = 60.0
IDLE = Plan("idle", 0, ())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine as it is now; runs are recorded in a folder that does not exist yet."""
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool: apt-get install bpftool")
    run_dir = tmp_path / "not" / "there" / "yet"
    monkeypatch.setenv("DCGYM_RUN_DIR", str(run_dir))
    return Machine(run_dir)


@pytest.fixture
def owner(machine: Machine) -> Iterator[Owner]:
    made = Owner()
    yield made
    made.close()


def await_release(victim: Victim, machine: Machine) -> None:
    for what, look in {
        "processes": lambda: [
            pid for pid, began in victim.processes.items() if start_time(pid) == began
        ],
        "algorithms": lambda: {victim.algorithm} & algorithms(),
        "namespaces": lambda: victim.namespaces & machine.namespaces(),
        "BPF objects": lambda: victim.bpf & machine_bpf(),
    }.items():
        wait_until_empty(look, RELEASE_DEADLINE_S, what=what)
    assert not {path for path in victim.shared_memory if os.path.exists(path)}


def received_bytes(backends: list[OneNetwork]) -> np.ndarray:
    return np.array([int(b.snapshot().hosts["rx_bytes"].sum()) for b in backends])


def have_risen(backends: list[OneNetwork], before: np.ndarray) -> bool:
    return bool((received_bytes(backends) > before).all())


def generator_pid(backend: OneNetwork) -> int:
    children = child_pids(inner_pid(backend.lab.process._process.pid))
    (pid,) = (child for child in children if b"generator" in read_proc(child, "comm"))
    return pid


def snapshot_for(backend: OneNetwork, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        backend.snapshot()
        time.sleep(0.005)


@pytest.mark.timeout(600)
def test_kills_among_other_emulators_leave_nothing(
    make: Any, machine: Machine, owner: Owner
) -> None:
    survivors = [make("dumbbell") for _ in range(SURVIVORS)]
    plan = make_plan("pairs", survivors[0].topology, 0)
    for backend in survivors:
        begin(backend, plan)
    wait_for(lambda: received_bytes(survivors).all(), what="traffic in every emulator")
    survivor_pids = [backend.lab.process._process.pid for backend in survivors]
    for _, target in zip(range(KILLS), itertools.cycle(("outer", "inner", "owner")), strict=False):
        victim = describe(owner.outer)
        # The figures of one dumbbell: the emulator, its inner process, the generator, and who holds
        # the hosts' spaces, with two for each; no shells.
        assert len(victim.processes) == 3 + 1 + 2 * 4 and len(victim.namespaces) == 5
        assert victim.algorithm in algorithms() and len(victim.bpf) >= 10
        assert {run.pid for run in list_runs() if run.alive} == {owner.outer, *survivor_pids}
        before = received_bytes(survivors)
        pid = {"outer": owner.outer, "inner": inner_pid(owner.outer), "owner": owner.process.pid}
        os.kill(pid[target], signal.SIGKILL)
        if target == "owner":
            owner.restart()
        await_release(victim, machine)
        wait_for(partial(have_risen, survivors, before), what="rising counters")
        episode = owner.next_episode()
        assert ("" if target == "owner" else "died") in episode["error"]
        owner.outer = int(episode["outer"])
        # The next run has removed the record of the last one.
        assert not clean_dead_runs()
    assert [backend.lab.process._process.pid for backend in survivors] == survivor_pids
    for backend in survivors:
        backend.close()
    last = describe(owner.outer)
    owner.close()
    await_release(last, machine)
    assert [run.id for run in clean_dead_runs()] == [last.run_id]
    wait_until_empty(machine.leftovers, RELEASE_DEADLINE_S, what="left")
    assert not {name for name in algorithms() - machine.algorithms if last.run_id in name}


def test_a_dead_traffic_generator_is_noticed_and_the_next_reset_rebuilds(
    make: Any, machine: Machine
) -> None:
    backend = make("dumbbell")
    begin(backend, make_plan("pairs", backend.topology, 0))
    first_outer = backend.lab.process._process.pid
    os.kill(generator_pid(backend), signal.SIGKILL)
    # Its death is noticed, and not the silence of 2 s that would follow.
    with pytest.raises(BackendError, match="generator died"):
        snapshot_for(backend, RELEASE_DEADLINE_S)
    assert not begin(backend, IDLE).ports["tx_bytes"].any()
    assert backend.lab.process._process.pid != first_outer
    backend.close()
    wait_until_empty(machine.leftovers, RELEASE_DEADLINE_S, what="left")


def test_a_generator_that_died_between_episodes_does_not_spoil_the_next_reset(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    pid = generator_pid(backend)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not start_time(pid))
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_a_frozen_traffic_generator_is_stale_telemetry(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    os.kill(generator_pid(backend), signal.SIGSTOP)
    with pytest.raises(BackendError, match="silent for 5"):
        snapshot_for(backend, RELEASE_DEADLINE_S)
    assert not begin(backend, IDLE).ports["tx_bytes"].any()


def test_a_process_that_only_waited_for_its_turn_is_not_hung(make: Any) -> None:
    backend = make("dumbbell")
    begin(backend, IDLE)
    now_ns = time.monotonic_ns()
    beats = iter([now_ns - 10**10, now_ns - 10**10, now_ns - 10**10, now_ns])
    session = backend._network.session
    assert session.check_heartbeat(lambda: next(beats), "traffic generator") >= 10**10
    backend.snapshot()


def test_a_start_needs_no_run_folder(make: Any, machine: Machine) -> None:
    assert not machine.run_dir.exists()
    backend = make("dumbbell")
    (run,) = list_runs()
    assert (
        run.alive and run.pid == backend.lab.process._process.pid and run.owner_pid == os.getpid()
    )
    backend.close()
    assert list_runs() == []


def test_only_dead_runs_are_cleaned(machine: Machine) -> None:
    process = subprocess.Popen(["sleep", "60"])
    record_run("aaaaaa", process.pid)
    record_run("bbbbbb", os.getpid())
    assert [run.alive for run in list_runs()] == [True, True]
    assert clean_dead_runs() == []
    process.kill()
    # Not waited for yet: a zombie is dead too.
    wait_for(lambda: not list_runs()[0].alive)
    assert [run.id for run in clean_dead_runs()] == ["aaaaaa"]
    process.wait()
    assert [run.id for run in list_runs()] == ["bbbbbb"]


def test_the_next_run_removes_what_dead_ones_left(machine: Machine) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    # Of a process that had ended before it was recorded, too.
    record_run("aaaaaa", ended.pid)
    (machine.run_dir / "aaaaaa.network").touch()
    (machine.run_dir / f".dcgym-0.{ended.pid}").touch()
    record_run("bbbbbb", os.getpid())
    assert [path.name for path in machine.run_dir.iterdir()] == ["bbbbbb.json"]


def test_a_later_process_of_the_same_number_is_not_the_run(machine: Machine) -> None:
    record_run("cccccc", os.getpid())
    (run,) = list_runs()
    assert not Run(run.id, run.pid, run.start_time_ticks - 1, run.pid, 0).alive


def test_a_broken_run_file_is_passed_over(machine: Machine) -> None:
    record_run("dddddd", os.getpid())
    (machine.run_dir / "eeeeee.json").write_text('{"id": "eeeeee"')
    assert [run.id for run in list_runs()] == ["dddddd"]
