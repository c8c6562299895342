"""Traffic tools in the native generator's place, between two namespaces and in a dumbbell."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.topologies import make_topology
from dcgym.traffic import Flow, Plan
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.generators.view import CUT, FINISHED, REFUSED
from tests.support.networks import begin
from tests.support.pairs import Pair, run_plan, wait_for

RATE_BPS = 20_000_000
MSS, MTU = 1448, 1514

# What the README of goben 1.1.0 says that the program does, as far as the adapter relies on it.
GOBEN_STAND_IN = """
import socket, sys, time
args = sys.argv[1:]
if "--listeners" in args:
    ip, port = args[args.index("--listeners") + 1].split(":")
    server = socket.create_server((ip, int(port)))
    connection = server.accept()[0]
    while connection.recv(65536):
        pass
    time.sleep(60)  # until it is ended
ip, port = args[args.index("--hosts") + 1].split(":")
duration = args[args.index("--totalDuration") + 1]
end = time.monotonic() + float(duration.removesuffix("ms")) / 1000
with socket.create_connection((ip, int(port))) as connection:
    # Chosen for it, as it has no option for that.
    assert connection.getsockopt(6, socket.TCP_CONGESTION, 16).rstrip(bytes(1)) == b"{cc}"
    while time.monotonic() < end:
        connection.sendall(bytes(1000))
        time.sleep(0.001)
print(f"handleConnectionClient: {duration} timer", file=sys.stderr)
print("aggregate writing: 8.000000 Mbps 1000 send/s", file=sys.stderr)
"""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.emulation,
    pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed"),
]


@pytest.fixture
def generator(pair: Pair) -> Iterator[Generator]:
    with Generator(pair.hosts(), kind="iperf3") as made:
        yield made


def processes(generator: Generator) -> list[str]:
    task = Path(f"/proc/{generator.pid}/task/{generator.pid}/children")
    return task.read_text(encoding="ascii").split()


def test_tcp_of_a_size_takes_the_time_that_its_link_does(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("20mbit")
    size_bytes = 2_000_000
    origin_ns = run_plan(generator, Flow("h1", "h2", size_bytes=size_bytes), cc="cubic")
    wait_for(lambda: view.finished)
    (record,) = view.records()
    assert record["outcome"] == FINISHED
    # Whole blocks, as many as hold the size.
    assert size_bytes <= record["bytes"] < size_bytes + 16
    assert record["planned_start_ns"] == origin_ns <= record["start_ns"]
    # The link's rate is of frames, and its bucket's burst and slow start are small against this.
    needed_s = size_bytes * 8 / RATE_BPS * MTU / MSS
    assert int(record["end_ns"] - record["start_ns"]) / 1e9 == pytest.approx(needed_s, rel=0.1)
    assert view.hosts()["tx_bytes"][0] >= record["bytes"]
    assert view.hosts()["rx_bytes"][1] >= record["bytes"]
    assert record["min_rtt_ns"] > 0


def test_udp_keeps_its_rate_and_its_duration(generator: Generator, view: GeneratorView) -> None:
    flow = Flow("h2", "h1", transport="udp", rate_bps=4_000_000, duration_ns=600_000_000)
    origin_ns = run_plan(generator, flow)
    wait_for(lambda: view.finished)
    (record,) = view.records()
    assert (record["outcome"], record["transport"]) == (FINISHED, 1)
    assert record["end_ns"] >= origin_ns + 600_000_000
    lasted_s = int(record["end_ns"] - record["start_ns"]) / 1e9
    # iperf3 sends its bursts on a timer, of which one may be missing at the end.
    assert record["bytes"] * 8 / lasted_s == pytest.approx(4_000_000, rel=0.15)


def test_repetitions_and_followers_run_one_after_the_other(
    generator: Generator, view: GeneratorView
) -> None:
    first = Flow("h1", "h2", size_bytes=100_000, repetitions=2, gap_ns=100_000_000)
    run_plan(generator, first, Flow("h2", "h1", size_bytes=50_000, after=0))
    wait_for(lambda: view.finished)
    records = view.records()
    assert [(row["id"], row["repetition"]) for row in records] == [(0, 0), (0, 1), (1, 0)]
    assert records["planned_start_ns"][1] == records["end_ns"][0] + 100_000_000
    assert records["planned_start_ns"][2] == records["end_ns"][1]
    assert (records["start_ns"] >= records["planned_start_ns"]).all()
    assert view.starts()[0] == 3


def test_stop_cuts_and_leaves_no_process(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("20mbit")
    run_plan(generator, Flow("h1", "h2"), Flow("h2", "h1", start_ns=30_000_000_000))
    # The counters move while the flow runs.
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 500_000)
    assert view.hosts()["active_flows"].tolist() == [1, 0]
    assert generator.stop() == 1
    (record,) = view.records()
    assert record["outcome"] == CUT
    assert record["bytes"] > 500_000 - 140_000
    lasted_s = int(record["end_ns"] - record["start_ns"]) / 1e9
    assert record["bytes"] * 8 / lasted_s <= RATE_BPS
    assert processes(generator) == []
    assert not view.finished


def test_the_tool_dies_with_a_killed_generator(generator: Generator, view: GeneratorView) -> None:
    run_plan(generator, Flow("h1", "h2"))
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 0)
    children = processes(generator)
    assert len(children) == 2
    os.kill(generator.pid, signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_taken_port_is_refused(pair: Pair, generator: Generator, view: GeneratorView) -> None:
    # A TCP flow's sender listens: two of one port there, with different receivers or not, clash.
    flows = [Flow("h1", "h2", size_bytes=10_000_000, rate_bps=RATE_BPS, port=7000)]
    flows.append(Flow("h1", "h2", size_bytes=1000, port=7000, start_ns=500_000_000))
    run_plan(generator, *flows)
    wait_for(lambda: view.record_count == 1)
    assert view.records()["outcome"].tolist() == [REFUSED]
    generator.stop()


@pytest.mark.parametrize("cc", ["reno", "cubic"])
def test_goben_is_run_as_documented(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cc: str
) -> None:
    stand_in = GOBEN_STAND_IN.replace("{cc}", cc)
    program = tmp_path / "goben"
    program.write_text(f"#!{sys.executable}\n{stand_in}", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with Generator(pair.hosts(), kind="goben") as generator:
        view = GeneratorView(generator.shm_fd)
        run_plan(generator, Flow("h1", "h2", duration_ns=300_000_000), cc=cc)
        wait_for(lambda: view.finished)
        (record,) = view.records()
        # The stand-in says 8 Mbit/s.
        assert (record["outcome"], record["bytes"]) == (FINISHED, 300_000)
        assert record["end_ns"] - record["start_ns"] == 300_000_000
        assert view.hosts()["rx_bytes"][1] >= 300_000
        assert processes(generator) == []
        view.close()
        with pytest.raises(BackendError, match="flow 0: goben needs a rate"):
            run_plan(generator, Flow("h1", "h2", size_bytes=1000))


def test_probes_belong_to_the_native_generator(pair: Pair) -> None:
    with pytest.raises(BackendError, match="native generator alone"):
        Generator(pair.hosts(), kind="iperf3", probes=[("h1", "h2")])


def test_a_missing_tool_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    backend = EmulationNetwork(make_topology("dumbbell"), NetworkOptions(generator="iperf3"))
    with pytest.raises(FeatureNotSupported, match=r"'iperf3'.*apt-get install iperf3"):
        backend.start()


def test_an_episode_of_a_dumbbell(make: Callable[..., EmulationNetwork]) -> None:
    backend = make("dumbbell", generator="iperf3")
    names = [host.name for host in backend.topology.hosts]
    plan = Plan("tool", 0, (Flow(names[0], names[-1], size_bytes=200_000),))
    for _ in range(2):
        begin(backend, plan, {names[0]: "reno"})
        wait_for(backend.finished)
        (record,) = backend.flow_records()
        assert record["outcome"] == FINISHED
        assert 200_000 <= record["bytes"] < 200_016
