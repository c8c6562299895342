"""``dcgym shell``: Mininet's command line beside a running emulator."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.emulation.session.process import pid_of
from dcgym.backends.emulation.session.runs import choose_run
from dcgym.testing import OneNetwork
from dcgym.topologies import Link, Topology, make_topology
from dcgym.traffic import make_plan
from tests.support.commands import run_here
from tests.support.networks import begin
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep other emulators of the machine out of sight."""
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))


@pytest.fixture
def shell(capfd: pytest.CaptureFixture[str]) -> Shell:
    """Run the command in this process; what it starts inside is a process of its own."""
    return partial(run_here, capfd, "shell")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OneNetwork, Path]]:
    """Start an emulator for all tests that leave it as it was, and keep its folder of runs."""
    folder = tmp_path_factory.mktemp("runs")
    network = OneNetwork(
        EmulationNetwork(make_topology("dumbbell"), NetworkOptions(preflight=False))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DCGYM_RUN_DIR", str(folder))
        network.start()
        yield network, folder
        patch.setenv("DCGYM_RUN_DIR", str(folder))
        network.close()


@pytest.fixture
def dumbbell(
    running: tuple[OneNetwork, Path], run_dir: None, monkeypatch: pytest.MonkeyPatch
) -> OneNetwork:
    network, folder = running
    monkeypatch.setenv("DCGYM_RUN_DIR", str(folder))
    return network


def inside(backend: OneNetwork) -> set[int]:
    """Processes of the emulator and of its hosts, which have the IPC namespace in common."""
    first, found = pid_of(backend.lab.process.pidfd), set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/{name}/ns/ipc", f"/proc/{first}/ns/ipc"):
                found.add(int(name))
    return found


def test_one_command_runs_in_a_host_while_traffic_flows(make: Any, shell: Shell) -> None:
    # The switch's name has no number, from which Mininet would make its datapath's.
    roles = [("h1", "host"), ("h2", "host"), ("core", "switch")]
    links = [Link(host, "core", 10_000_000, 400_000, 30_000) for host in ("h1", "h2")]
    backend = make(Topology.build("one-switch", roles, links))
    plan = make_plan("pairs", backend.topology, 0)
    begin(backend, plan)
    before, emulator = inside(backend), backend.lab.process
    done = shell("--command", "h1 ping -n -c1 -W30 h2")
    assert done.returncode == 0, done.stderr
    assert "1 packets transmitted, 1 received" in done.stdout and "10.0.0.2" in done.stdout
    # How the command ended is how the shell ends.
    assert shell("--command", "h1 sh -c 'exit 7'").returncode == 7
    assert shell("--command", "h1 cat /no/such/file").returncode == 1
    # The run goes on in the same emulator, and nothing of the shell is left in it.
    assert backend.lab.process is emulator
    wait_for(lambda: inside(backend) == before)
    first = int(backend.snapshot().hosts["rx_bytes"].sum())
    while int(backend.snapshot().hosts["rx_bytes"].sum()) == first:
        backend.advance(backend.snapshot().time_ns + 10_000_000)


def test_the_prompt_takes_mininet_commands(dumbbell: OneNetwork, shell: Shell) -> None:
    typed = "links\nh2 cat /sys/class/net/h2-eth0/address\npy net['h1'].IP()\npingall 30\nexit\n"
    done = shell(dumbbell.lab.process.run_id, typed=typed)
    assert done.returncode == 0, done.stderr
    assert "h1-eth0<->s1-eth1" in done.stdout
    assert dumbbell.topology.mac("h2") in done.stdout
    assert "10.0.0.1" in done.stdout
    assert "0% dropped (12/12 received)" in done.stdout


def test_which_emulator_is_meant_is_asked_in_one_line(make: Any, shell: Shell) -> None:
    nobody = shell()
    assert (nobody.returncode, nobody.stderr) == (
        1,
        "dcgym: no emulation is running on this machine\n",
    )
    first, second = make("dumbbell"), make("dumbbell")
    both = shell("--command", "nodes")
    assert both.returncode == 1 and both.stderr.count("\n") == 1
    assert first.lab.process.run_id in both.stderr and second.lab.process.run_id in both.stderr
    other = shell("ffffff-no")
    assert "run: value 'ffffff-no'" in other.stderr and other.returncode == 2
    strange = shell(first.lab.process.run_id, "--command", "h9 ls")
    assert strange.returncode == 2 and "'h9' is neither a node" in strange.stderr
    run = choose_run(first.lab.process.run_id)
    os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: not run.alive)
    dead = shell(first.lab.process.run_id)
    assert f"run {first.lab.process.run_id} is dead" in dead.stderr and dead.returncode == 1
    assert shell("--command", "nodes").returncode == 0


@pytest.mark.usefixtures("dumbbell")
def test_the_shell_ends_as_its_command_does(shell: Shell) -> None:
    # Each as a user writes it, with what it says.
    for command, code, words in (
        ("h1 exit 3", 3, ""),
        ("h1 no-such-program", 127, "not found"),
        ("sh exit 4", 4, ""),
        ("nodes", 0, "h1 h2"),
        ("link h1 h9 down", 1, "h9"),
        ("dpctl dump-flows", 1, "no OpenFlow tables"),
    ):
        done = shell("--command", command)
        said = done.stdout + done.stderr
        assert (done.returncode, words in said, "Traceback" in said) == (code, True, False), said


@pytest.mark.usefixtures("dumbbell")
def test_a_failed_command_does_not_end_the_prompt(shell: Shell) -> None:
    failing = ["dpctl dump-flows", "switch s9 stop", "h1 exit", "h1", "nonsense", "px 1/0"]
    failing += ["py nothing", "iperf h9 h8", "link a b c", "x h9", "source /no/such/file", "h1 ^["]
    done = shell(typed="\n".join([*failing, "h1 echo still $((40+2))", "exit", ""]))
    assert done.returncode == 0, done.stderr
    assert "still 42" in done.stdout and "Traceback" not in done.stdout + done.stderr
    for words in ("eBPF switches have no OpenFlow", "usage: switch NAME", "two hosts of h1"):
        assert words in done.stdout


def test_a_switch_stops_and_starts(dumbbell: OneNetwork, shell: Shell) -> None:
    assert shell("--command", "h1 ping -n -c1 -W30 h2").returncode == 0
    assert shell("--command", "switch s1 stop").returncode == 0
    assert shell("--command", "h1 ping -n -c1 -W1 h2").returncode == 1
    assert shell("--command", "switch s1 start").returncode == 0
    typed = "h1 until ping -n -c1 -W1 h2 >/dev/null; do :; done; echo back\nexit\n"
    assert "back" in shell(dumbbell.lab.process.run_id, typed=typed).stdout


def test_ctrl_c_ends_the_command_and_not_the_prompt(dumbbell: OneNetwork) -> None:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    said = b""

    def wait_until_said(words: bytes) -> None:
        def is_said() -> bool:
            nonlocal said
            with contextlib.suppress(BlockingIOError):
                said += os.read(ours, 1 << 16)
            return words in said

        nonlocal said
        wait_for(is_said, what=words.decode())
        # What comes next is said anew.
        said = said.partition(words)[2]

    words = [sys.executable, "-m", "dcgym", "shell", dumbbell.lab.process.run_id]
    # Of a session of its own, at whose terminal somebody types.
    started = subprocess.Popen(
        ["setsid", "--ctty", *words], stdin=theirs, stdout=theirs, stderr=theirs
    )
    try:
        wait_until_said(b"mininet> ")
        os.write(ours, b"h1 sh -c 'echo run$((40+2)); exec sleep 1000'\n")
        wait_until_said(b"run42")
        os.write(ours, b"\x03")
        wait_until_said(b"mininet> ")
        os.write(ours, b"h1 echo still $((40+3))\n")
        wait_until_said(b"still 43")
        wait_until_said(b"mininet> ")
        os.write(ours, b"exit\n")
        assert started.wait(60) == 0
    finally:
        started.kill()
        started.wait()
        os.close(ours)
        os.close(theirs)


def iperf_mbps(shell: Shell) -> tuple[float, float]:
    """Return what a dumbbell carries of TCP, and of UDP at 2 Mbit/s."""
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    done = shell(typed="iperf h1 h3\niperfudp 2M h1 h3\nexit\n")
    received = re.findall(r"received ([0-9.]+) Mbits/sec", done.stdout)
    assert len(received) == 2, done.stdout + done.stderr
    return float(received[0]), float(received[1])


@pytest.mark.usefixtures("dumbbell")
def test_iperf_answers(shell: Shell) -> None:
    tcp, udp = iperf_mbps(shell)
    # A late machine carries less, and none more than the link or what is sent.
    assert 0 < tcp <= 10.0 and 0 < udp <= 2.1


@pytest.mark.timing
def test_iperf_measures_the_bottleneck(make: Any, shell: Shell) -> None:
    make("dumbbell")
    tcp, udp = iperf_mbps(shell)
    # One of 10 Mbit/s carries 9.56 of payload; 2 Mbit/s of UDP fit.
    assert tcp == pytest.approx(10 * 1448 / 1514, rel=0.05)
    assert udp == pytest.approx(2, rel=0.05)


def test_dpctl_shows_the_tables_of_open_vswitch(make: Any, shell: Shell) -> None:
    if shutil.which("ovs-vswitchd") is None:
        pytest.skip("Open vSwitch is not installed")
    make("dumbbell", switch="ovs")
    done = shell("--command", "dpctl dump-flows")
    assert done.returncode == 0, done.stderr
    assert "*** s1" in done.stdout and "actions=" in done.stdout
