"""Traffic tools in the native generator's place, between two namespaces and in a dumbbell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.records import FIDELITY, PROCESSES
from dcgym.cli.app import app as cli
from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import Flow, Plan, make_plan
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.generators.view import CUT, FINISHED, REFUSED, RESET
from tests.support.networks import begin
from tests.support.pairs import Pair, run_plan
from tests.support.tools import kill_one, processes
from tests.support.waiting import wait_for
from tests.support.windows import best_of

RATE_BPS = 20_000_000
MSS, MTU, ACK = 1448, 1514, 66

pytestmark = [
    pytest.mark.emulation,
    pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed"),
]


@pytest.fixture
def generator(pair: Pair) -> Iterator[Generator]:
    with Generator(pair.hosts(), kind="iperf3") as made:
        yield made


def lasted_s(record: np.void) -> float:
    return int(record["end_ns"] - record["start_ns"]) / 1e9


SIZE_BYTES = 2_000_000


def tcp_of_a_size(generator: Generator, view: GeneratorView) -> np.void:
    origin_ns = run_plan(generator, Flow("h1", "h2", size_bytes=SIZE_BYTES), cc="cubic")
    wait_for(lambda: view.finished)
    (record,) = view.records()
    assert record["outcome"] == FINISHED
    # Whole blocks, as many as hold the size.
    assert SIZE_BYTES <= record["bytes"] < SIZE_BYTES + 16
    assert record["planned_start_ns"] == origin_ns <= record["start_ns"]
    return record


def test_tcp_of_a_size_is_recorded_and_counted(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("20mbit")
    record = tcp_of_a_size(generator, view)
    assert view.hosts()["tx_bytes"][0] >= record["bytes"]
    assert view.hosts()["rx_bytes"][1] >= record["bytes"]
    assert record["min_rtt_ns"] > 0


@pytest.mark.timing
def test_tcp_of_a_size_takes_the_time_that_its_link_does(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("20mbit")
    # The link's rate is of frames, and its bucket's burst and slow start are small against this.
    needed_s = SIZE_BYTES * 8 / RATE_BPS * MTU / MSS
    record = best_of(
        lambda: tcp_of_a_size(generator, view),
        lambda found: abs(lasted_s(found) / needed_s - 1),
        0.1,
    )
    assert lasted_s(record) == pytest.approx(needed_s, rel=0.1)


def udp_rate_bps(generator: Generator, view: GeneratorView) -> float:
    flow = Flow("h2", "h1", transport="udp", rate_bps=4_000_000, duration_ns=600_000_000)
    origin_ns = run_plan(generator, flow)
    wait_for(lambda: view.finished)
    (record,) = view.records()
    assert (record["outcome"], record["transport"]) == (FINISHED, 1)
    assert record["end_ns"] >= origin_ns + 600_000_000
    return float(record["bytes"]) * 8 / lasted_s(record)


def test_udp_keeps_its_duration(generator: Generator, view: GeneratorView) -> None:
    assert udp_rate_bps(generator, view) > 0


@pytest.mark.timing
def test_udp_keeps_its_rate(generator: Generator, view: GeneratorView) -> None:
    # iperf3 sends its bursts on a timer, of which one may be missing at the end.
    found_bps = best_of(
        lambda: udp_rate_bps(generator, view), lambda found: abs(found / 4e6 - 1), 0.15
    )
    assert found_bps == pytest.approx(4_000_000, rel=0.15)


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
    assert record["bytes"] * 8 / lasted_s(record) <= RATE_BPS
    assert processes(generator) == []
    assert not view.finished


def test_the_tool_dies_with_a_killed_generator(generator: Generator, view: GeneratorView) -> None:
    run_plan(generator, Flow("h1", "h2"))
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 0)
    children = processes(generator)
    assert len(children) == 2
    os.kill(generator.pid, signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_flows_of_one_source_have_listeners_of_their_own(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    # A TCP flow's sender listens, and a plan numbers ports by destination.
    pair.limit("20mbit")
    flows = [
        Flow("h1", "h2", size_bytes=300_000, port=7000),
        Flow("h1", "h2", size_bytes=200_000, port=7000, start_ns=1),
        Flow("h2", "h1", size_bytes=100_000, port=7000),
    ]
    run_plan(generator, *flows)
    wait_for(lambda: view.finished)
    records = np.sort(view.records(), order="id")
    assert records["outcome"].tolist() == [FINISHED] * 3
    assert (records["bytes"] >= [300_000, 200_000, 100_000]).all()


def test_a_taken_port_is_refused(pair: Pair, generator: Generator, view: GeneratorView) -> None:
    script = "import socket; s = socket.create_server(('10.0.0.1', 7000)); print(1); input()"
    argv = ["nsenter", "-t", str(pair.holders[0].pid), "-n", sys.executable, "-uc", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        run_plan(generator, Flow("h1", "h2", size_bytes=1000, port=7000))
        wait_for(lambda: view.record_count == 1)
        other.stdin.close()
    (record,) = view.records()
    assert (record["outcome"], record["bytes"]) == (REFUSED, 0)


def test_a_broken_flow_is_not_finished(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("20mbit")
    run_plan(generator, Flow("h1", "h2", size_bytes=50_000_000))
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 200_000)
    # The sender dies; the receiver reports an error, and ends with code 0 all the same.
    kill_one(generator, "-s")
    wait_for(lambda: view.record_count == 1)
    (record,) = view.records()
    assert record["outcome"] == RESET
    assert 200_000 < record["bytes"] < 10_000_000


def test_a_host_that_cannot_be_reached_is_refused(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.run(1, "ip route add unreachable 10.0.0.1/32")
    run_plan(generator, Flow("h1", "h2", size_bytes=1000))
    wait_for(lambda: view.record_count == 1)
    (record,) = view.records()
    assert (record["outcome"], record["bytes"]) == (REFUSED, 0)


def test_probes_belong_to_the_native_generator(pair: Pair) -> None:
    with pytest.raises(BackendError, match="native generator alone"):
        Generator(pair.hosts(), kind="iperf3", probes=[("h1", "h2")])


def test_a_missing_tool_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    backend = OneNetwork(
        EmulationNetwork(make_topology("dumbbell"), NetworkOptions(generator="iperf3"))
    )
    with pytest.raises(FeatureNotSupported, match=r"'iperf3'.*apt-get install iperf3"):
        backend.start()


def test_an_episode_of_a_dumbbell(make: Callable[..., EmulationNetwork]) -> None:
    backend = make("dumbbell", generator="iperf3")
    names = [host.name for host in backend.topology.hosts]
    plan = Plan("tool", 0, (Flow(names[0], names[-1], size_bytes=200_000),))
    assert backend.records(PROCESSES) == []
    for _ in range(2):
        begin(backend, plan, {names[0]: "reno"})
        wait_for(backend.finished)
        (record,) = backend.flow_records()
        assert record["outcome"] == FINISHED
        assert 200_000 <= record["bytes"] < 200_016
    (row,) = backend.records(PROCESSES)
    assert (row["flow"], row["listens_at"], row["connects_at"]) == (0, names[0], names[-1])
    assert str(row["listener"]).startswith("iperf3 -s -1 -B ")
    assert "-n 200000" in str(row["connector"])


def test_the_record_of_a_run_names_its_processes() -> None:
    options = ["--generator", "iperf3", "--traffic", "pairs", "--seconds", "0.5", "--json"]
    done = CliRunner().invoke(cli, ["run", "--policy", "cubic", *options])
    assert done.exit_code == 0, done.output
    (record,) = json.loads(done.stdout)
    assert record["config"]["generator"] == "iperf3"
    assert [row["flow"] for row in record["processes"]] == list(range(record["plan"]["flows"]))
    for row in record["processes"]:
        # TCP in reverse mode: the receiver connects.
        assert row["listener"].startswith("iperf3 -s -1 -B ")
        assert row["connector"].startswith("iperf3 -c ") and " -R " in row["connector"]
        assert row["connector"].endswith(" -C cubic")


# Two flows a host, all to one port, as Iroko's random_2_flows has them.
IROKO = """\
src,dst,port,seed,start_time,stop_time,flow_size,flow_size_pattern,reps,flow_gap,random_gap
h1,h3,12345,1,0.0,60.0,2147483647,exact,-1,0.001,exact
h1,h4,12345,2,0.0,60.0,2147483647,exact,-1,0.001,exact
h2,h4,12345,3,0.0,60.0,2147483647,exact,-1,0.001,exact
h2,h1,12345,4,0.0,60.0,2147483647,exact,-1,0.001,exact
h3,h1,12345,5,0.0,60.0,2147483647,exact,-1,0.001,exact
h3,h2,12345,6,0.0,60.0,2147483647,exact,-1,0.001,exact
h4,h2,12345,7,0.0,60.0,2147483647,exact,-1,0.001,exact
h4,h3,12345,8,0.0,60.0,2147483647,exact,-1,0.001,exact
"""
LINKS_BPS = 4 * 10e6
WARM_UP_NS = 1_500_000_000
WINDOWS, WINDOW_NS = 10, 250_000_000


@pytest.mark.timing
@pytest.mark.parametrize("traffic", ["all-to-all", "iroko"])
def test_goodput_is_that_of_the_native_generator(
    make: Callable[..., EmulationNetwork], tmp_path: Path, traffic: str
) -> None:
    spec: str | Path = traffic
    if traffic == "iroko":
        spec = tmp_path / "matrix.csv"
        spec.write_text(IROKO, encoding="utf-8")
    for generator in ("native", "iperf3"):
        # Each link has flows enough to be full, however they share it.
        backend = make({"name": "single-switch", "hosts": 4, "rate": "10Mbit"}, generator=generator)
        plan = make_plan(spec, backend.topology, 1)
        # Marks in place of losses: a hole in a window of 2.5 s hides what waits behind it.
        begin(backend, plan, "dctcp", marking=True)
        backend.advance(backend.now_ns() + WARM_UP_NS)
        found = best_of(lambda network=backend: measure(network), farthest, 0.01)
        # Within 2 % of each other, as each is within 1 % of what the four links carry.
        assert farthest(found) == pytest.approx(0, abs=0.01), (generator, found)
        assert "lost_flow_share" not in backend.records(FIDELITY).figures
        backend.apply(cuts_flows=True)
        records = backend.flow_records()
        assert records["outcome"].tolist() == [CUT] * len(plan)
        assert (records["bytes"] > 0).all()
        backend.close()


def measure(backend: OneNetwork) -> tuple[float, float]:
    """Return what the links carry of their rate, and hosts of what the segments on them hold.

    While the machine's host takes the processor away, a token bucket forgoes what it cannot hold:
    the links are looked at in short windows, of which the one nearest to their rate counts.

    How many segments an ACK is for depends on the marks: a receiver acknowledges at once when they
    begin and when they end (RFC 8257, section 3.2). So the frames are counted.
    """
    looks = [backend.snapshot()]
    for _ in range(WINDOWS):
        backend.advance(looks[-1].time_ns + WINDOW_NS)
        looks.append(backend.snapshot())
    times_s = np.array([look.time_ns for look in looks]) / 1e9
    sent, frames = (
        np.array([float(look.ports[name].sum()) for look in looks])
        for name in ("tx_bytes", "tx_packets")
    )
    carried = np.diff(sent) * 8 / np.diff(times_s) / LINKS_BPS
    received = float(looks[-1].hosts["rx_bytes"].sum() - looks[0].hosts["rx_bytes"].sum())
    segments = (np.ptp(sent) - np.ptp(frames) * ACK) / (MTU - ACK)
    return min(carried, key=lambda share: abs(share - 1)), received / (segments * MSS)


def farthest(shares: tuple[float, float]) -> float:
    """Return how far from one the worse of two shares is."""
    return max(abs(share - 1) for share in shares)
