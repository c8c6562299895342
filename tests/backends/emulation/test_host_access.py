"""What programs of emulated hosts have; `test_reached.py` tries what they reach of the machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import CommandError, ConfigError

pytestmark = pytest.mark.emulation


def run(network: Any, script: str, host: str = "h1") -> str:
    return str(network.lab.execute(host, "sh", "-c", script))


def test_what_experiments_need_is_there(make: Any, tmp_path: Path) -> None:
    limited = make("dumbbell")
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


def test_hosts_that_only_read_have_a_tmp_each(make: Any, tmp_path: Path, monkeypatch: Any) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    network = make("dumbbell", host_access="read-only")
    run(network, "echo kept > result; echo passing > /tmp/note; echo > /dev/shm/note")
    assert (work / "result").read_text() == "kept\n"
    assert run(network, "cat /tmp/note") == "passing\n", "one /tmp for all commands of a host"
    with pytest.raises(CommandError):
        run(network, "cat /tmp/note", "h2")
    assert not Path("/tmp/note").exists()
    run(network, f"echo passing > {tmp_path}/note")
    assert not (tmp_path / "note").exists(), "the folder above is one of the host's own /tmp"
    assert run(network, "cat /etc/hosts").count("h1")


def test_unknown_access_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"host_access: value 'none' .*limited, read-only, full"):
        make("dumbbell", host_access="none")
