"""Worker processes: what they are forked from, and what becomes of them when that ends."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dcgym.processes import find_processes
from dcgym.suites.faults import WorkFailed
from dcgym.suites.forkserver import ForkServer
from dcgym.suites.rollout import Progress
from dcgym.suites.spec import RunSpec
from dcgym.suites.work import ENDED, MARK, NO_MARK
from dcgym.suites.workers import Workers
from dcgym.testing import FakeBackend
from tests.support.gates import GATE_FOLDER, GatedBackend, open_gate, parent_of, waiting
from tests.support.waiting import wait_for

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]
START_S = 120.0
NOTES = "DCGYM_TEST_NOTES"


class NotingBackend(FakeBackend):
    """Leaves a note of what it finds in its process, and changes it."""

    starts = 0

    def start(self) -> None:
        """Leave the note."""
        NotingBackend.starts += 1
        own = os.environ[MARK]
        assert f"{MARK}={own}".encode() in Path("/proc/self/environ").read_bytes().split(b"\0")
        said = f"{os.getppid()} {os.getpid()} {own} {NotingBackend.starts}\n"
        with Path(os.environ[NOTES]).open("a") as notes:
            notes.write(said)
        super().start()


class DeafBackend(GatedBackend):
    """Waits at the gate, and is not ended by what usually ends a process."""

    def start(self) -> None:
        """Wait."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().start()


def run(workers: Workers, folder: Path, backend: str, progress: Progress = lambda *_: None) -> None:
    env = {"topology": "dumbbell", "traffic": "pairs-udp", "interval": "100ms", "backend": backend}
    spec = RunSpec(env=env, policy="cubic", steps=5, folder=str(folder))
    workers.run(spec, folder / "log.txt", progress)


def servers() -> list[int]:
    """Return the processes of this test that workers are forked from."""
    return [pid for pid in find_processes(MARK).get(NO_MARK, []) if parent_of(pid) == os.getpid()]


def test_workers_begin_from_the_same_state_and_share_none(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    reports: list[tuple[float, str]] = []
    for number in range(3):
        folder = tmp_path / str(number)
        run(workers, folder, f"{__name__}:NotingBackend", lambda *told: reports.append(told))
        assert (folder / "summary.json").exists()
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    parents, pids, marks, starts = (list(column) for column in zip(*notes, strict=True))
    assert starts == ["1"] * 3
    assert len({*parents}) == 1 and len({*pids}) == len({*marks}) == 3
    assert all(len(mark) == len(NO_MARK) for mark in marks)
    assert (1.0, "") in reports


def test_what_runs_import_is_imported_once(tmp_path: Path, workers: Workers) -> None:
    run(workers, tmp_path / "first", "dcgym.testing:FakeBackend")
    (server,) = servers()

    def has_polars() -> bool:
        return "polars" in Path(f"/proc/{server}/maps").read_text()

    # The worker has written its tables with it, and the other one imports it thereupon.
    wait_for(has_polars, START_S)


def test_a_run_that_removes_modules_is_a_run(tmp_path: Path, workers: Workers) -> None:
    # The second one imports less than it removes.
    for number in range(2):
        run(workers, tmp_path / str(number), "tests.support.gates:ForgettingBackend")


def test_a_killed_process_that_workers_are_forked_from_fails_their_runs_alone(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GATE_FOLDER, str(tmp_path))
    with pytest.raises(WorkFailed, match="forked from"):
        run(workers, tmp_path / "killed", "tests.support.gates:ParricidalBackend")
    assert waiting(tmp_path) == 1
    run(workers, tmp_path / "next", "dcgym.testing:FakeBackend")
    assert (tmp_path / "next" / "summary.json").exists()


def test_a_process_to_fork_from_that_cannot_start_says_why(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcgym.suites.workers.SERVER", "dcgym.suites.no_such_module")
    with pytest.raises(WorkFailed, match=r"forked from \(.*No module named .*no_such_module"):
        run(workers, tmp_path / "run", "dcgym.testing:FakeBackend")


@pytest.mark.parametrize("backend", ["tests.support.gates:GatedBackend", f"{__name__}:DeafBackend"])
def test_stopped_workers_are_gone_and_start_nothing_more(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr("dcgym.suites.workers.STOP_GRACE_S", 2.0)
    monkeypatch.setenv(GATE_FOLDER, str(tmp_path))
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            run(workers, tmp_path / "run", backend)
        except BaseException as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_for(lambda: waiting(tmp_path) == 1, START_S)
    workers.stop()
    waiter.join(START_S)
    assert str(tmp_path) not in find_processes(GATE_FOLDER)
    open_gate(tmp_path)
    [error] = raised
    assert "stopped" in str(error)
    with pytest.raises(type(error), match="stopped"):
        run(workers, tmp_path / "late", "dcgym.testing:FakeBackend")


def test_workers_end_with_who_asked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GATE_FOLDER, str(tmp_path))
    code = (
        "from pathlib import Path; from dcgym.suites.workers import Workers; "
        f"from {__name__} import run; "
        f"run(Workers(), Path({str(tmp_path / 'run')!r}), 'tests.support.gates:GatedBackend')"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for(lambda: waiting(tmp_path) == 1, START_S)
    driver.kill()
    driver.wait()
    wait_for(lambda: str(tmp_path) not in find_processes(GATE_FOLDER), START_S)


def test_a_worker_that_cannot_be_forked_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection, given = socket.socketpair()
    with (tmp_path / "log.txt").open("wb") as log, given:
        socket.send_fds(ours, [b"1" * len(NO_MARK)], [log.fileno(), given.fileno(), log.fileno()])
    ours.close()
    # It goes on until nobody asks any more.
    assert ForkServer(theirs, os.getpid()).serve() is None
    assert connection.recv(100).decode().split() == [ENDED, "1"]
    assert os.strerror(errno.EAGAIN) in (tmp_path / "log.txt").read_text()
