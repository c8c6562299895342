"""Learners whose environments, libraries or owners are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import dcgym
from dcgym.backends.emulation.session.runs import list_runs
from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.policies import LEARNERS, load_policy
from dcgym.policies.checkpoint import CHECKPOINT_FILE, CheckpointNote, read_note
from dcgym.policies.learned.apart import LOG_FILE, train_apart
from dcgym.policies.learned.child import Child
from dcgym.policies.learned.mending import MOST_BREAKS, MendedEnv
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from dcgym.policies.learners import Progress
from dcgym.testing.fake_backend import FakeBackend
from tests.support.emulators import Machine, child_pids, read_proc
from tests.support.waiting import wait_for

CONFIG: dict[str, Any] = {"env": "CongestionControl-v2", "topology": "dumbbell", "max_steps": 50}
END_S = 60.0
START_S = 600.0  # Ray on a busy machine.
LOOK_S = 0.2  # At all processes of the machine.


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What runs below this test is known by its folder."""
    run_dir = tmp_path / "runs"
    run_dir.mkdir()
    monkeypatch.setenv("DCGYM_RUN_DIR", str(run_dir))
    return Machine(run_dir)


class Breaking(gym.Env[Any, Any]):
    """Breaks in the steps and the resets of these numbers, counted together from 0."""

    observation_space = action_space = gym.spaces.Discrete(1000)

    def __init__(self, *broken: int) -> None:
        self._broken, self._calls = broken, -1

    def _call(self) -> int:
        self._calls += 1
        if self._calls in self._broken:
            raise BackendError("the emulator died")
        return self._calls

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return self._call(), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return (number := self._call()), float(number), False, False, {}


def test_an_episode_that_breaks_is_truncated_at_the_last_observation() -> None:
    env = MendedEnv(Breaking(3, 4))
    assert env.reset() == (0, {})
    assert [env.step(0)[:4] for _ in range(3)] == [
        (1, 1.0, False, False),
        (2, 2.0, False, False),
        (2, 2.0, False, True),
    ]
    assert env.reset() == (5, {}), "the reset that breaks is tried again"
    assert env.step(0)[:4] == (6, 6.0, False, False)


def test_what_breaks_again_and_again_raises() -> None:
    env = MendedEnv(Breaking(*range(1, 20)))
    env.reset()
    env.step(0)
    with pytest.raises(BackendError, match=rf"{MOST_BREAKS + 1} breaks .*the emulator died"):
        env.reset()


def _start_strays(pipe: Any) -> None:
    """Start a process that leaves group, session and parent, as services of libraries do."""
    stray = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(300)"
    subprocess.run([sys.executable, "-c", stray], check=True)
    pipe.send("ready")
    pipe.recv()


def test_nothing_that_a_child_has_started_is_left(machine: Machine) -> None:
    child = Child(_start_strays)
    assert child.pipe.recv() == "ready"
    assert len(machine.our_processes()) == 2
    child.close()
    assert not machine.our_processes()


def test_a_fork_of_the_owner_ends_nothing(machine: Machine) -> None:
    child = Child(_start_strays)
    assert child.pipe.recv() == "ready"
    fork = os.fork()
    if fork == 0:
        child.interrupt()
        os._exit(child.close(deadline_s=0.0))
    assert os.waitpid(fork, 0)[1] == 0
    assert len(machine.our_processes()) == 2
    child.close()
    assert not machine.our_processes()


def test_a_child_ends_with_its_owner_and_takes_what_it_has_started_along(machine: Machine) -> None:
    program = "import sys; sys.path.insert(0, '.'); from tests.policies import test_kills as t\n"
    # The child is kept: without its pipe's other end it would end before its owner.
    program += "child = t.Child(t._start_strays); child.pipe.recv()\n"
    program += "print('ready', flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None and owner.stdin is not None
    with owner, owner.stdout, owner.stdin:
        assert owner.stdout.readline() == b"ready\n"
        assert len(machine.our_processes()) == 3
        owner.kill()
        owner.wait()
        wait_for(lambda: not machine.our_processes(), END_S, LOOK_S)


class Steady:
    """Learns nothing, five steps at a time, until its process ends."""

    def __init__(self, ends_after: int) -> None:
        self._ends_after = ends_after

    def learn(self, clock: TrainingClock) -> None:
        clock.begin()
        while not clock.is_over:
            clock.report(clock.last.steps + 5, 0.5)
            if clock.last.steps == self._ends_after:
                os._exit(3)

    def save(self, folder: Path) -> dict[str, object]:
        return {"said": "saved"}

    def save_state(self, folder: Path, is_last: bool) -> None:
        (folder / "steady").write_text(str(is_last))


@contextlib.contextmanager
def _open_steady(job: TrainingJob) -> Iterator[Steady]:
    if job.seed < 0:
        raise FeatureNotSupported("learning", "here")
    yield Steady(ends_after=job.seed)


def train_steadily(folder: Path, seed: int) -> list[int]:
    steps: list[int] = []
    clock = TrainingClock(20, None, lambda progress: steps.append(progress.steps))
    note = CheckpointNote("none", "none")
    train_apart(_open_steady, TrainingJob({}, seed, 1), note, clock, folder)
    return steps


def test_a_training_apart_reports_and_saves(tmp_path: Path) -> None:
    assert train_steadily(tmp_path, seed=0) == [5, 10, 15, 20]
    note = read_note(tmp_path)
    assert (note.training["steps"], note.details) == (20, {"said": "saved"})
    assert not (tmp_path / LOG_FILE).exists()


def test_a_training_apart_whose_process_ends_has_a_checkpoint(tmp_path: Path) -> None:
    said = rf"ended early: .*{LOG_FILE} says why; the checkpoint has 5 steps"
    with pytest.raises(BackendError, match=said):
        train_steadily(tmp_path, seed=10)
    assert read_note(tmp_path).training["steps"] == 5, "the next one is due in ten seconds"


def test_a_training_apart_that_does_not_begin_says_why(tmp_path: Path) -> None:
    with pytest.raises(FeatureNotSupported, match=r"learning .*here"):
        train_steadily(tmp_path, seed=-1)


@pytest.mark.learning
@pytest.mark.timeout(300)
def test_training_goes_on_where_a_worker_is_killed(machine: Machine, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if not killed:
            killed.append(child_pids(os.getpid())[-1])
            os.kill(killed[0], signal.SIGKILL)

    config = {**CONFIG, "backend": FakeBackend}
    folder = LEARNERS["ddpg"].train(config, 300, 0, tmp_path / "run", kill, n_envs=2, budget_s=200)
    assert killed and read_note(folder).training["steps"] == 300
    assert not machine.our_processes()


@pytest.mark.learning
@pytest.mark.emulation
@pytest.mark.timeout(300)
def test_training_goes_on_where_an_emulator_is_killed(machine: Machine, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if not killed:
            killed.extend(run.pid for run in list_runs())
            os.kill(killed[0], signal.SIGKILL)

    config = {**CONFIG, "backend": "emulation", "interval": "50ms", "max_steps": 20}
    folder = LEARNERS["ddpg"].train(config, 80, 0, tmp_path / "run", kill, n_envs=1, budget_s=200)
    assert killed and read_note(folder).training["steps"] == 80
    wait_for(lambda: not machine.leftovers().keys() - {"runs"}, END_S, LOOK_S)


@pytest.fixture
def trained_by_ppo(machine: Machine, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command; it has not begun yet."""
    pytest.importorskip("ray")
    words = ["train", "--algo", "ppo", "--env", "LoadBalancing-v1", "--seconds", "200", "--out"]
    command = [sys.executable, "-m", "dcgym", *words, str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _raylets(machine: Machine) -> list[int]:
    return [pid for pid in machine.our_processes() if b"/raylet\0" in read_proc(pid, "cmdline")]


def _workers(machine: Machine) -> list[int]:
    pids = machine.our_processes()
    return [pid for pid in pids if read_proc(pid, "cmdline").startswith(b"ray::")]


@pytest.mark.ray
@pytest.mark.learning
@pytest.mark.simulation
def test_a_killed_service_of_ray_ends_in_one_line_with_a_checkpoint(
    machine: Machine, trained_by_ppo: subprocess.Popen[str], tmp_path: Path
) -> None:
    wait_for(lambda: (tmp_path / "run" / CHECKPOINT_FILE).exists(), START_S, LOOK_S)
    (raylet,) = _raylets(machine)
    os.kill(raylet, signal.SIGKILL)
    assert trained_by_ppo.stderr is not None
    said = trained_by_ppo.stderr.read().strip().splitlines()
    assert trained_by_ppo.wait() == 1
    assert said[-1].startswith("dcgym: training ended early:"), said
    assert not any("Traceback" in line for line in said)
    assert not machine.our_processes()
    env = dcgym.make_env({"env": "LoadBalancing-v1"})
    action = load_policy(tmp_path / "run", env).act(*env.reset(seed=0))
    assert env.action_space.contains(action)


@pytest.mark.ray
@pytest.mark.learning
@pytest.mark.simulation
def test_nothing_of_ray_outlives_a_killed_command(
    machine: Machine, trained_by_ppo: subprocess.Popen[str]
) -> None:
    # Ray's workers come last: all of its services run by then.
    wait_for(lambda: bool(_raylets(machine) and _workers(machine)), START_S, LOOK_S)
    trained_by_ppo.kill()
    trained_by_ppo.wait()
    wait_for(lambda: not machine.our_processes(), END_S, LOOK_S)
