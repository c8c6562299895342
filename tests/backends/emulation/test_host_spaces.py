"""Each host sees, signals and traces its own processes alone, whatever has started them."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.records import APPLICATIONS
from dcgym.errors import CommandError
from dcgym.traffic import Flow, Plan
from dcgym.traffic.plans.applications import App, AppPlan
from tests.support.commands import run_here
from tests.support.networks import begin
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

SLEEPER = ("sleep", "31557")


def sleepers(network: Any, host: str) -> list[str]:
    """Return the numbers that a host knows of processes with the arguments of `SLEEPER`."""
    words = " ".join(SLEEPER)
    return str(network.lab.execute(host, "sh", "-c", f"pgrep -fx '{words}'; true")).split()


def sleep_in(network: Any, host: str) -> None:
    words = " ".join(SLEEPER)
    network.lab.execute(host, "sh", "-c", f"{words} >/dev/null 2>&1 &")
    wait_for(lambda: sleepers(network, host))


def test_hosts_have_process_numbers_of_their_own(make: Any) -> None:
    network = make("dumbbell")
    sleep_in(network, "h2")
    (number,) = sleepers(network, "h2")
    assert not sleepers(network, "h1")
    with pytest.raises(CommandError, match="No such process"):
        network.lab.execute("h1", "kill", number)
    assert sleepers(network, "h2") == [number]
    # Its parent has ended: the host's first process takes what it leaves.
    network.lab.execute("h2", "kill", number)
    everybody = ("sh", "-c", "cat /proc/[0-9]*/comm")
    wait_for(lambda: {*network.lab.execute("h2", *everybody).split()} == {"dcgym-host", "sh"})


def test_a_group_of_processes_ends_in_its_host(make: Any) -> None:
    network = make("dumbbell")
    with pytest.raises(CommandError) as caught:
        # kill(2) itself: some shells kill themselves alone where their group is from outside.
        network.lab.execute("h1", "python3", "-c", "import os; os.kill(0, 9)")
    assert caught.value.returncode == -signal.SIGKILL
    sleep_in(network, "h1")
    # All that the host may signal (kill(2), -1): the shell alone is left, and the first process.
    network.lab.execute("h1", "sh", "-c", "trap '' TERM; kill -TERM -1")
    wait_for(lambda: not sleepers(network, "h1"))
    assert network.lab.process.alive() and network.lab.execute("h2", "echo", "here") == "here\n"


def test_applications_see_those_of_their_host_and_the_host_sees_them(
    make: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    network = make("dumbbell", applications=True)
    sleep_in(network, "h1")
    words = " ".join(SLEEPER)
    end = f"until pkill -fx '{words}'; do sleep 0.01; done"
    gone = f"while pgrep -fx '{words}'; do sleep 0.01; done"
    apps = [App("h1", SLEEPER), App("h2", SLEEPER), App("h3", SLEEPER)]
    apps.append(App("h1", ("sh", "-c", f"{end}; {gone} > /dev/null; ps -eo stat,args")))
    begin(network, AppPlan("apps", 0, tuple(apps), tmp_path))

    def exit_codes() -> list[int | None]:
        return [record["exit_code"] for record in network.records(APPLICATIONS)]

    wait_for(lambda: exit_codes() == [-signal.SIGTERM, None, None, 0])
    said = (tmp_path / "3-h1.out").read_text().splitlines()
    # ps' title, the first process, sh and ps; a process that has ended may not be waited for yet.
    assert len([line for line in said if not line.startswith("Z")]) == 4, said
    # What the host's other commands see, and may end.
    assert len(sleepers(network, "h1")) == 1
    wait_for(lambda: len(sleepers(network, "h2")) == len(sleepers(network, "h3")) == 1)
    network.lab.execute("h2", "pkill", "-fx", words)
    done = run_here(capfd, "shell", "--command", f"h3 pkill -fx '{words}'")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: exit_codes() == [-signal.SIGTERM] * 3 + [0])
    # The episode ends its applications, not what the experiment runs beside them.
    network.apply(cuts_flows=True)
    assert len(sleepers(network, "h1")) == 1


def test_a_tool_gets_what_its_host_gets(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    monkeypatch.chdir(tmp_path)
    network = make("dumbbell", host_access="read-only", generator="iperf3")
    begin(network, Plan("flow", 0, (Flow("h1", "h3"),)))
    wait_for(lambda: network.lab.execute("h3", "sh", "-c", "pgrep iperf3; true"))
    assert not network.lab.execute("h2", "sh", "-c", "pgrep iperf3; true")
    for folder in ("/var/tmp", "/tmp"):
        escape = f"for p in $(pgrep iperf3); do echo > /proc/$p/root{folder}/dcgym-escaped; done"
        network.lab.execute("h3", "sh", "-c", f"{escape}; true")
        assert not Path(folder, "dcgym-escaped").exists()
    network.lab.execute("h3", "test", "-e", "/tmp/dcgym-escaped")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python's -P is of 3.11")
def test_modules_in_the_working_folder_are_not_taken_for_pythons(
    make: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    # What a host that only reads may leave there. All three of our processes import it.
    (tmp_path / "argparse.py").write_text("raise SystemExit('a module of the working folder')")
    network = make("dumbbell", host_access="read-only", applications=True)
    begin(network, AppPlan("apps", 0, (App("h1", ("true",)),)))
    wait_for(network.finished)
    assert run_here(capfd, "shell", "--command", "h1 true").returncode == 0


def test_a_program_that_is_missing_is_named(make: Any) -> None:
    with pytest.raises(CommandError, match=r"no-such-program: No such file") as caught:
        make("dumbbell").lab.execute("h1", "no-such-program")
    assert caught.value.returncode == 127
