"""goben in the native generator's place: a stand-in, and the real one where it is installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dcgym.traffic import Flow
from dcgym.traffic.generators.generator import Generator, GeneratorView
from dcgym.traffic.generators.view import CUT, FINISHED, RESET
from tests.support.pairs import Pair, run_plan
from tests.support.tools import kill_one, processes
from tests.support.waiting import wait_for

# Of Ethernet, IPv4, and TCP with the timestamps that Linux sends, or UDP.
HEADER_BYTES, UDP_HEADER_BYTES = 14 + 20 + 32, 14 + 20 + 8

# What goben 1.1.0 does, as far as the adapter relies on it: options, then data, an exit code of 0.
GOBEN_STAND_IN = """
import os, socket, sys, time
args = sys.argv[1:]
if "--listeners" in args:
    ip, port = args[args.index("--listeners") + 1].split(":")
    server = socket.create_server((ip, int(port)))
    connection = server.accept()[0]
    # read(2), as the real one does: recv(2) is not counted.
    began, total = time.monotonic(), -230
    while data := os.read(connection.fileno(), 65536):
        total += len(data)
    mbps = total * 8e-6 / (time.monotonic() - began)
    print(f"0/0 average   serverReader rate: {mbps:f} Mbps 1000 rcv/s", file=sys.stderr)
    time.sleep(60)  # until it is ended
ip, port = args[args.index("--hosts") + 1].split(":")
duration = args[args.index("--totalDuration") + 1]
end = time.monotonic() + float(duration.removesuffix("ms")) / 1000
with socket.create_connection((ip, int(port))) as connection:
    # Chosen for it, as it has no option for that.
    assert connection.getsockopt(6, socket.TCP_CONGESTION, 16).rstrip(bytes(1)) == b"{cc}"
    connection.sendall(bytes(230 + 300_000))
    time.sleep(max(end - time.monotonic(), 0))
print(f"handleConnectionClient: {duration} timer", file=sys.stderr)
print("aggregate writing: 80.000000 Mbps 1000 send/s", file=sys.stderr)
"""

pytestmark = pytest.mark.emulation


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
        # What the receiver read, and not the 3 MB that the sender's rate and time would be.
        (row,) = generator.process_records()
        assert (record["outcome"], record["bytes"]) == (FINISHED, 300_000), str(row)
        assert view.hosts()["rx_bytes"][1] == 300_000
        assert processes(generator) == []
        assert (row["listens_at"], row["connects_at"]) == ("h2", "h1")
        assert str(row["connector"]).startswith("goben --hosts 10.0.0.2:")
        view.close()


@pytest.fixture
def goben(pair: Pair) -> Iterator[Generator]:
    if shutil.which("goben") is None:
        pytest.skip("goben is not on the PATH")
    with Generator(pair.hosts(), kind="goben") as made:
        yield made


def wire_bytes(pair: Pair, header_bytes: int = HEADER_BYTES) -> int:
    """Return what h2 has received, without the headers of its packets."""
    (row,) = (row for row in pair.run(1, "cat /proc/net/dev").splitlines() if "eth0:" in row)
    n_bytes, n_packets = map(int, row.split()[1:3])
    return n_bytes - header_bytes * n_packets


def goben_record(pair: Pair, generator: Generator, flow: Flow) -> tuple[np.void, int]:
    """Run one flow to its end; returns its record, and what the wire has carried."""
    pair.limit("10mbit")
    run_plan(generator, flow)
    view = GeneratorView(generator.shm_fd)
    wait_for(lambda: view.finished)
    (record,) = view.records()
    view.close()
    return record, wire_bytes(pair, UDP_HEADER_BYTES if flow.transport == "udp" else HEADER_BYTES)


FLOWS = [
    # Below the link's rate: what waits behind a loss has arrived, and cannot be read yet.
    Flow("h1", "h2", duration_ns=1_000_000_000, rate_bps=8_000_000),
    Flow("h1", "h2", duration_ns=2_000_000_000, rate_bps=2_000_000),
    Flow("h1", "h2", size_bytes=1_000_000),
    Flow("h1", "h2", size_bytes=500_000, rate_bps=4_000_000),
    Flow("h1", "h2", transport="udp", duration_ns=1_500_000_000, rate_bps=4_000_000),
]


@pytest.mark.parametrize("flow", FLOWS)
def test_goben_itself_is_counted_as_the_wire_counts(
    pair: Pair, goben: Generator, flow: Flow
) -> None:
    record, carried_bytes = goben_record(pair, goben, flow)
    n_bytes = int(record["bytes"])
    assert record["outcome"] == FINISHED
    # A TCP flow's last packets may still be on their way when it ends.
    assert n_bytes == pytest.approx(carried_bytes, rel=0.02)
    if flow.size_bytes is not None:
        assert flow.size_bytes <= n_bytes < flow.size_bytes + 10_000


@pytest.mark.timing
@pytest.mark.parametrize("flow", [flow for flow in FLOWS if flow.rate_bps is not None])
def test_goben_itself_keeps_its_rate(pair: Pair, goben: Generator, flow: Flow) -> None:
    record, _ = goben_record(pair, goben, flow)
    lasted_s = int(record["end_ns"] - record["start_ns"]) / 1e9
    assert int(record["bytes"]) * 8 / lasted_s == pytest.approx(flow.rate_bps, rel=0.03)


def test_goben_itself_is_cut_with_what_has_arrived(pair: Pair, goben: Generator) -> None:
    pair.limit("10mbit")
    # Below the link's rate: what waits behind a loss has arrived, and cannot be read yet.
    run_plan(goben, Flow("h1", "h2", rate_bps=8_000_000))
    view = GeneratorView(goben.shm_fd)
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 1_000_000)
    assert goben.stop() == 1
    (record,) = view.records()
    view.close()
    assert record["outcome"] == CUT
    assert int(record["bytes"]) == pytest.approx(wire_bytes(pair), rel=0.02)
    assert processes(goben) == []


def test_goben_itself_breaks(pair: Pair, goben: Generator) -> None:
    pair.limit("10mbit")
    run_plan(goben, Flow("h1", "h2", duration_ns=60_000_000_000))
    view = GeneratorView(goben.shm_fd)
    wait_for(lambda: view.hosts()["rx_bytes"][1] > 500_000)
    kill_one(goben, "--listeners")
    wait_for(lambda: view.record_count == 1)
    (record,) = view.records()
    view.close()
    assert record["outcome"] == RESET
    # What was still on its way has nobody to read it.
    assert 500_000 <= int(record["bytes"]) <= wire_bytes(pair)
