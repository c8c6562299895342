"""What a process of an emulated host reaches of the machine, found out by trying."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import CommandError, ConfigError
from tests.support.networks import started

pytestmark = pytest.mark.emulation

# Each is refused unless a host may do what it likes.
REACHES = {
    "mount": "mount -t tmpfs none /mnt",
    "make a device": "mknod /run/disk b 7 0",
    "pin BPF": "touch /sys/fs/bpf/x || mount -t bpf none /sys/fs/bpf",
    "set the clock": "date -s @0",
    "enter the emulator's root": "ls /proc/1/root/",
}
# Refused whatever a host may do.
BEYOND = {
    "write kernel settings": "echo 1 > /proc/sys/kernel/panic_on_oops",
    "ask for a reboot": "echo h > /proc/sysrq-trigger",
    "read the kernel's log": "head -c1 /dev/kmsg",
    "read a disk": "for d in /dev/[hsv]d? /dev/loop0; do head -c1 $d && exit; done; false",
}


def run(network: Any, script: str, host: str = "h1") -> str:
    return str(network.lab.execute(host, "sh", "-c", script))


@pytest.fixture(scope="module")
def limited() -> Iterator[Any]:
    with contextlib.closing(started("dumbbell")) as network:
        yield network


def test_processes_of_hosts_reach_neither_kernel_nor_devices(limited: Any) -> None:
    for what, script in (REACHES | BEYOND).items():
        with pytest.raises(CommandError):
            pytest.fail(f"{what}: {run(limited, script)!r}")


def test_full_access_is_root_but_for_the_machine_itself(make: Any) -> None:
    network = make("dumbbell", host_access="full")
    run(network, REACHES["mount"])
    run(network, REACHES["enter the emulator's root"])
    for what, script in BEYOND.items():
        with pytest.raises(CommandError):
            pytest.fail(f"{what}: {run(network, script)!r}")


@pytest.fixture
def abstract() -> Iterator[str]:
    """An abstract socket that somebody of the machine listens at."""
    name = f"dcgym-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        yield name


def test_sockets_and_processes_of_the_machine_are_out_of_reach(limited: Any, abstract: str) -> None:
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{abstract}')"
    with pytest.raises(CommandError, match="Connection refused"):
        limited.lab.execute("h1", "python3", "-c", connect)
    with pytest.raises(CommandError):
        run(limited, f"kill -0 {os.getpid()}")
    assert {*run(limited, "ls /run").split()} - {"mount"} == {"dcgym-network.json", "hosts"}


def test_what_experiments_need_is_there(limited: Any, tmp_path: Path) -> None:
    assert "h1" in run(limited, "ls /sys/class/net"), "its own interfaces"
    run(limited, "sysctl -qw net.ipv4.tcp_congestion_control=reno")
    run(limited, "ip route add 192.0.2.0/24 dev lo && tc qdisc show && ethtool h1-eth0")
    run(limited, "echo > /dev/null; head -c1 /dev/urandom; python3 -c 'import pty; pty.openpty()'")
    run(limited, f"echo kept > {tmp_path}/file")
    assert (tmp_path / "file").read_text() == "kept\n"
    if shutil.which("tcpdump"):
        listen = "tcpdump -ni lo -c1 -w /run/packets > /run/said 2>&1 &"
        begun = "while ! grep -q listening /run/said; do sleep 0.01; done"
        run(limited, f"{listen} {begun}; ping -c1 -q 127.0.0.1; wait")
    if shutil.which("ping"):
        limited.lab.execute("h1", "ping", "-c1", "-W30", limited.topology.ip("h2"), timeout_s=30.0)


def test_files_to_read_only(make: Any, tmp_path: Path, monkeypatch: Any) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    network = make("dumbbell", host_access="read-only")
    run(network, "echo kept > result; echo passing > /tmp/note; echo > /dev/shm/note")
    assert (work / "result").read_text() == "kept\n"
    assert not Path("/tmp/note").exists()
    run(network, f"echo passing > {tmp_path}/note")
    assert not (tmp_path / "note").exists(), "the folder above is one of the host's own /tmp"
    for place in ("/etc/note", "/usr/note", "/root/note"):
        with pytest.raises(CommandError):
            pytest.fail(f"{place}: {run(network, f'echo > {place}')}")
        assert not Path(place).exists()
    assert run(network, "cat /etc/hosts").count("h1")


def test_unknown_access_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"host_access: value 'none' .*limited, read-only, full"):
        make("dumbbell", host_access="none")
