"""Real applications in the hosts: what they carry, what becomes of them, and that they end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.records import APPLICATIONS
from dcgym.cli.app import app as cli
from dcgym.errors import BackendError, ConfigError
from dcgym.testing import OneNetwork
from dcgym.topologies import dumbbell
from dcgym.traffic import Flow, Plan
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.plans.applications import App, AppPlan
from tests.support.emulators import child_pids, read_proc
from tests.support.networks import begin
from tests.support.pairs import Pair
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

PAGE_BYTES = 3_000_000
# Fetches until the server listens; prints how much it got.
FETCH = """
import sys, time, urllib.request
for _ in range(600):
    try:
        print(len(urllib.request.urlopen(sys.argv[1]).read()))
        break
    except OSError:
        time.sleep(0.05)
else:
    sys.exit("no server")
"""
# As daemon(3), but for the time that the child takes to leave the group.
DAEMONISE = """
import os, sys, time
if os.fork():
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
os.setsid()
print("serving", flush=True)
time.sleep(1000)
"""
DAEMON = "setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 1000"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture(scope="module")
def adapter(pair: Pair) -> Iterator[Generator]:
    """Start the adapter once: half a second of a processor."""
    with Generator(pair.hosts(), kind="apps") as made:
        yield made


@pytest.fixture
def generator(adapter: Generator) -> Iterator[Generator]:
    yield adapter
    # What a plan has left is cut, and its records go with the next plan.
    adapter.stop()


def run_apps(generator: Generator, *apps: App, output: Path | None = None) -> None:
    import time

    generator.load(AppPlan("test", 0, apps, output))
    generator.start(time.monotonic_ns())


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for child in child_pids(pid):
        found |= {child} | descendants(child)
    return found


def applications(generator: Generator) -> set[int]:
    """Return the processes of applications: the others hold the spaces that they run in."""
    # One that has gone meanwhile is none.
    others = (b"", b"dcgym-host\n")
    return {pid for pid in descendants(generator.pid) if read_proc(pid, "comm") not in others}


def test_a_server_and_its_client(make: Callable[..., EmulationNetwork], tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(bytes(PAGE_BYTES))
    backend = make(dumbbell(hosts=4, rate="100Mbit"), applications=True)
    server = [sys.executable, "-m", "http.server", "8000", "--directory", str(tmp_path)]
    apps = (
        App("h1", tuple(server), background=True),
        App("h3", (sys.executable, "-c", FETCH, "http://h1:8000/page"), start_ns=100_000_000),
    )
    for episode in range(2):
        begin(backend, AppPlan("web", 0, apps, tmp_path / str(episode)))
        wait_for(backend.finished)
        # Counters are read every 20 ms.
        wait_for(lambda: int(backend.snapshot().hosts["rx_bytes"][2]) >= PAGE_BYTES)
        backend.apply(cuts_flows=True)
        served, fetched = backend.records(APPLICATIONS)
        assert (served["outcome"], served["exit_code"]) == ("cut", -signal.SIGTERM)
        assert (fetched["outcome"], fetched["exit_code"]) == ("finished", 0)
        assert 0.1 <= fetched["began_s"] < fetched["ended_s"]
        assert (tmp_path / str(episode) / "1-h3.out").read_text() == f"{PAGE_BYTES}\n"
        hosts = backend.snapshot().hosts
        # The page, the head of the answer, and what handshakes have over plain headers.
        assert PAGE_BYTES < hosts["rx_bytes"][2] < 1.01 * PAGE_BYTES
        assert PAGE_BYTES < hosts["tx_bytes"][0] < 1.05 * PAGE_BYTES  # lost segments are sent again
    # A plan of flows has the native generator again.
    begin(backend, Plan("flows", 0, (Flow("h1", "h3", size_bytes=1000),)))
    wait_for(backend.finished)
    assert backend.records(APPLICATIONS) == []
    assert len(backend.flow_records()) == 1


def test_exit_codes_and_last_words(generator: Generator) -> None:
    run_apps(
        generator,
        App("h1", ("sh", "-c", "echo fine; echo $DCGYM_HOST $A"), env=(("A", "b"),)),
        App("h2", ("sh", "-c", "echo broken >&2; exit 3")),
        App("h2", ("sh", "-c", "kill -9 $$")),
        App("h1", ("/nowhere/program",)),
        App("h1", ("true",), start_ns=3600 * 10**9),
    )
    wait_for(lambda: sum(row["ended_s"] is not None for row in generator.app_records()) == 4)
    rows = generator.app_records()
    assert [row["outcome"] for row in rows] == ["finished", *["failed"] * 3, "waiting"]
    assert [row["exit_code"] for row in rows] == [0, 3, -signal.SIGKILL, 127, None]
    assert [row["said"] for row in rows[:3]] == ["h1 b", "broken", ""]
    assert "/nowhere/program" in rows[3]["said"]


def test_a_duration_ends_even_what_ignores_it(generator: Generator) -> None:
    deaf = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done")
    # Long enough for the shell to have become deaf.
    run_apps(
        generator,
        App("h1", ("sleep", "1000"), duration_ns=200_000_000),
        App("h1", deaf, duration_ns=3_000_000_000),
    )
    view = GeneratorView(generator.shm_fd)
    wait_for(lambda: view.finished)
    view.close()
    polite, forced = generator.app_records()
    assert polite["outcome"] == forced["outcome"] == "stopped"
    assert polite["exit_code"] == -signal.SIGTERM
    assert forced["exit_code"] == -signal.SIGKILL
    wait_for(lambda: not applications(generator))


def test_a_daemon_goes_on_until_its_duration_is_over(generator: Generator, tmp_path: Path) -> None:
    leave, output = tmp_path / "leave", tmp_path / "output"
    output.mkdir()
    daemon = (sys.executable, "-c", DAEMONISE, str(leave))
    apps = [App("h1", daemon, duration_ns=4_000_000_000), App("h1", daemon), App("h2", ("true",))]
    run_apps(generator, *apps, output=output)
    view = GeneratorView(generator.shm_fd)
    wait_for(lambda: view.finished)
    view.close()
    rows = generator.app_records()
    assert [(row["outcome"], row["exit_code"]) for row in rows] == [("finished", 0)] * 3
    leave.touch()
    wait_for(lambda: (output / "1-h1.out").read_text() == "serving\n")
    # The daemon without a duration.
    wait_for(lambda: len(applications(generator)) == 1)
    assert [row["ended_s"] for row in generator.app_records()] == [row["ended_s"] for row in rows]
    assert generator.stop() == 0
    assert not descendants(generator.pid)


@pytest.mark.parametrize("way", ["stop", "close", "kill"])
def test_nothing_of_an_application_is_left(pair: Pair, way: str) -> None:
    with Generator(pair.hosts(), kind="apps") as generator:
        run_apps(generator, App("h1", ("sh", "-c", DAEMON)))
        # Two shells and two sleepers.
        wait_for(lambda: len(applications(generator)) == 4)
        family = descendants(generator.pid)
        if way == "stop":
            assert generator.stop() == 1
            assert not descendants(generator.pid)
            assert generator.app_records()[0]["outcome"] == "cut"
        elif way == "kill":
            os.kill(generator.pid, signal.SIGKILL)
        else:
            generator.close()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))


def test_no_socket_of_an_episode_blocks_the_next(pair: Pair, generator: Generator) -> None:
    # Without SO_REUSEADDR a port in TIME_WAIT, where the side is that closes first, is taken.
    serve = "s = socket.socket(); s.bind(('10.0.0.1', 9000)); s.listen(); s.accept()[0].close()"
    fetch = (
        "for _ in range(3000):\n"
        "    try: s = socket.create_connection(('10.0.0.1', 9000)); break\n"
        "    except OSError: time.sleep(0.01)\n"
        "s.recv(1)"
    )
    apps = [
        App(host, (sys.executable, "-c", f"import socket, time\n{code}"))
        for host, code in (("h1", serve), ("h2", fetch))
    ]
    # On a busy machine h2 may answer a late ACK with a reset, which ends TIME_WAIT (RFC 1337).
    pair.run(0, "tee /proc/sys/net/ipv4/tcp_rfc1337", "1")
    view = GeneratorView(generator.shm_fd)
    for _ in range(2):
        run_apps(generator, *apps)
        wait_for(lambda: view.finished)
        assert [row["exit_code"] for row in generator.app_records()] == [0, 0]
        assert "TIME-WAIT" in pair.run(0, "ss -Htan")
        generator.stop()
        assert pair.run(0, "ss -Htan") == pair.run(1, "ss -Htan") == ""
    view.close()


def test_an_output_that_cannot_be_written_is_refused(generator: Generator, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="No such file"):
        run_apps(generator, App("h1", ("true",)), output=tmp_path / "missing")
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (tmp_path / "0-h1.err").symlink_to(kept)
    with pytest.raises(BackendError, match="symbolic links"):
        run_apps(generator, App("h1", ("true",)), output=tmp_path)
    assert kept.read_text() == "kept"
    (tmp_path / "0-h1.err").unlink()
    run_apps(generator, App("h1", ("true",)), output=tmp_path)


def test_a_missing_program_stops_before_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = OneNetwork(EmulationNetwork(dumbbell(hosts=4), NetworkOptions(preflight=False)))
    monkeypatch.setattr(backend.backend, "start", lambda: pytest.fail("the network was built"))
    plan = AppPlan("test", 0, (App("h1", ("no-such-program",)),))
    with pytest.raises(ConfigError, match=r"traffic\.apps\.h1: value 'no-such-program'"):
        begin(backend, plan)


def test_the_command_line_runs_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "web.yaml"
    config.write_text(
        "topology: {name: dumbbell, hosts: 4, rate: 10Mbit}\n"
        "preflight: false\n"
        "traffic:\n  apps:\n    h1: sh -c 'echo from $DCGYM_HOST'\n    h2: 'false'\n"
    )
    arguments = ["run", "--config", str(config), "--seconds", "5", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    apps: list[dict[str, Any]] = json.loads(done.stdout)[0]["apps"]
    assert [(row["host"], row["exit_code"]) for row in apps] == [("h1", 0), ("h2", 1)]
    assert (tmp_path / "run" / "apps" / "0-h1.out").read_text() == "from h1\n"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["apps"] == apps
