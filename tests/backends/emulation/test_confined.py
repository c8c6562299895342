"""No host reaches the machine by a system call, whatever starts its program."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.tasks.balancing import make_scenario
from dcgym.traffic import Flow, Plan
from dcgym.traffic.http.programs import PROGRAMS_FOLDER, ServerProgram
from dcgym.traffic.plans.applications import App, AppPlan
from tests.support.commands import run_here
from tests.support.networks import begin
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

SCRIPT = Path(__file__).parents[2] / "support" / "ways_out.py"
UNKNOWN = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "32-bit unshare")
FAMILIES = ("AF_VSOCK", "AF_VSOCK in an int", "AF_ALG", "family 1000")
OPTIONS = ("SO_PASSPIDFD", "SO_PEERPIDFD")
PROTOCOLS = ("NETLINK_AUDIT", "NETLINK_CONNECTOR")


def assert_refused(said: str) -> None:
    answers = json.loads(said.strip().splitlines()[-1])
    expected = dict.fromkeys(answers, "EPERM")
    expected |= dict.fromkeys(UNKNOWN, "ENOSYS") | dict.fromkeys(FAMILIES, "EAFNOSUPPORT")
    expected |= dict.fromkeys(PROTOCOLS, "EPROTONOSUPPORT") | dict.fromkeys(OPTIONS, "ENOPROTOOPT")
    expected["write of sysfs"] = "EROFS"
    assert len(answers) > 25
    assert answers == {name: expected[name] for name in answers}


@pytest.mark.parametrize("access", ["limited", "read-only"])
def test_a_command_finds_every_way_closed(
    access: str, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The folder of the script may be one of /tmp, which is another for hosts that only read.
    script = shutil.copy(SCRIPT, tmp_path)
    lab = make("dumbbell", host_access=access).lab
    assert_refused(lab.execute("h1", "python3", script))


def test_an_application_finds_every_way_closed(make: Any, tmp_path: Path) -> None:
    network = make("dumbbell")
    begin(network, AppPlan("ways", 0, (App("h1", (sys.executable, str(SCRIPT))),), tmp_path))
    wait_for(network.finished)
    network.apply(cuts_flows=True)
    assert_refused((tmp_path / "0-h1.out").read_text())


def test_a_server_program_and_a_command_of_a_pool_find_every_way_closed() -> None:
    script = f'{sys.executable} {SCRIPT}; exec {sys.executable} -m http.server "$0"'
    program = ServerProgram(("sh", "-c", script, "<port>"), has_requests=False)
    pool = EmulatedPool(make_scenario("testbed-7"), options=PoolOptions(server_program=program))
    with contextlib.closing(pool):
        pool.reset([1])
        said = pool.execute("s1", "grep", "-m1", "clone3", f"{PROGRAMS_FOLDER}/s1/output")
        assert_refused(said)
        assert_refused(pool.execute("c1", "python3", str(SCRIPT)))


@pytest.mark.parametrize(
    "command",
    [
        f"h1 python3 {SCRIPT}",
        f"py net['h1'].popen('python3 {SCRIPT}').communicate()[0].decode()",
    ],
)
def test_a_shell_finds_every_way_closed(
    command: str,
    make: Any,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    make("dumbbell")
    done = run_here(capfd, "shell", "--command", command)
    assert done.returncode == 0, done.stderr
    assert_refused(done.stdout)


def test_a_tool_has_the_filter_of_its_host(make: Any) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    network = make("dumbbell", generator="iperf3")
    begin(network, Plan("flow", 0, (Flow("h1", "h3"),)))
    tools = "grep -lsx iperf3 /proc/[0-9]*/comm"
    wait_for(lambda: network.lab.execute("h1", "sh", "-c", f"{tools}; true"))
    filters = network.lab.execute(
        "h1", "sh", "-c", f"grep -h ^Seccomp: $({tools} | sed s/comm/status/)"
    )
    assert {*filters.splitlines()} == {"Seccomp:\t2"}
