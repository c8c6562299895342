"""The traffic generator against real kernels: two namespaces joined by a veth pair."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.errors import BackendError, ConfigError
from dcgym.traffic import Flow, Plan
from dcgym.traffic.generators.generator import Generator, GeneratorView, plan_file
from dcgym.traffic.generators.view import CUT, FINISHED, HEADER_DTYPE, REFUSED
from tests.support.pairs import Pair, run_plan
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

SAMPLE_DUE_AT = (HEADER_DTYPE.names or ()).index("sample_due_ns") * 8


def records(view: GeneratorView) -> npt.NDArray[np.void]:
    return view.records()


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_bulk_tcp_runs_its_control_and_its_round_trips_are_counted(
    pair: Pair, generator: Generator, view: GeneratorView, cc: str
) -> None:
    pair.limit("10mbit", burst_bytes=30_000)
    run_plan(generator, Flow("h1", "h2"), cc=cc)
    wait_for(lambda: int(view.hosts()["rtt_samples"][0]) > 100)
    assert cc in pair.run(0, "ss -tin")
    hosts = view.hosts()
    assert hosts["active_flows"].tolist() == [1, 0]
    assert 0 < hosts["min_rtt_ns"][0] <= hosts["rtt_sum_ns"][0] / hosts["rtt_samples"][0]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_no_flow_exceeds_its_rate(
    generator: Generator, view: GeneratorView, transport: str
) -> None:
    start_ns = run_plan(generator, Flow("h1", "h2", transport, rate_bps=20_000_000))
    wait_for(lambda: int(view.hosts()["rx_bytes"][1]) > 2_000_000)
    received = int(view.hosts()["rx_bytes"][1])
    # A pacer of TCP sends its first windows at once.
    assert received < 1.01 * 20e6 / 8e9 * (time.monotonic_ns() - start_ns) + 100_000


def udp_of_a_second(generator: Generator, view: GeneratorView) -> np.void:
    run_plan(generator, Flow("h1", "h2", "udp", rate_bps=8_000_000, duration_ns=1_000_000_000))
    wait_for(lambda: view.finished)
    (record,) = records(view)
    assert (record["transport"], record["outcome"]) == (1, FINISHED)
    return record


def test_a_udp_flow_ends_after_its_duration(generator: Generator, view: GeneratorView) -> None:
    record = udp_of_a_second(generator, view)
    assert record["end_ns"] >= record["planned_start_ns"] + 1_000_000_000
    assert 0 < record["bytes"] <= 1_003_000


def test_udp_flows_to_one_port_keep_apart(generator: Generator, view: GeneratorView) -> None:
    run_plan(
        generator,
        Flow("h1", "h2", "udp", rate_bps=10_000_000, size_bytes=100_000, port=7000),
        Flow("h1", "h2", "udp", rate_bps=10_000_000, size_bytes=33_333, start_ns=1, port=7000),
    )
    wait_for(lambda: view.finished)
    assert {int(r["id"]): int(r["bytes"]) for r in records(view)} == {0: 100_000, 1: 33_333}


def test_a_generator_with_more_to_send_than_any_machine_can_still_answers(
    generator: Generator, view: GeneratorView
) -> None:
    run_plan(generator, *(Flow("h1", "h2", "udp", rate_bps=10**10) for _ in range(64)))
    wait_for(lambda: int(view.read()[1]["tx_bytes"][0]) > 0)
    # `stop` raises unless there is an answer within 10 s; what is due never ends meanwhile.
    assert generator.stop() > 0


def test_what_a_full_link_loses_is_sent_and_not_received(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("10mbit", burst_bytes=30_000)
    # Beyond the link's 100 KB, whenever they are sent.
    run_plan(generator, Flow("h1", "h2", "udp", rate_bps=10**9, size_bytes=5_000_000))
    wait_for(lambda: view.finished)
    hosts = view.hosts()
    assert hosts["tx_bytes"][0] == 5_000_000
    (record,) = records(view)
    assert 0 < record["bytes"] == hosts["rx_bytes"][1] < 5_000_000


def test_finite_flows_deliver_every_byte(generator: Generator, view: GeneratorView) -> None:
    sizes = [1, 1447, 1448, 1449, 65_536, 1_000_000, 12_345_678]
    start_ns = run_plan(generator, *(Flow("h1", "h2", size_bytes=size) for size in sizes))
    wait_for(lambda: view.finished)
    done = records(view)
    assert {int(r["id"]): int(r["bytes"]) for r in done} == dict(enumerate(sizes))
    assert set(done["outcome"].tolist()) == {FINISHED}
    assert set(done["planned_start_ns"].tolist()) == {start_ns}
    assert (done["start_ns"] >= done["planned_start_ns"]).all()
    assert (done["end_ns"] > done["start_ns"]).all()
    hosts = view.hosts()
    assert int(hosts["rx_bytes"][1]) == sum(sizes)
    assert int(hosts["tx_bytes"][0]) <= sum(sizes)
    assert "TIME-WAIT" not in pair_sockets(generator)


def pair_sockets(generator: Generator) -> str:
    argv = ["nsenter", "-t", str(generator.pid), "-n", "ss", "-tan"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_start_time_repetitions_and_gap(generator: Generator, view: GeneratorView) -> None:
    offset_ns, gap_ns = 300_000_000, 50_000_000
    start_ns = run_plan(
        generator,
        Flow("h1", "h2", size_bytes=10_000, start_ns=offset_ns, repetitions=3, gap_ns=gap_ns),
    )
    wait_for(lambda: view.finished)
    done = records(view)
    assert done["repetition"].tolist() == [0, 1, 2]
    assert int(done["planned_start_ns"][0]) == start_ns + offset_ns
    gaps = done["planned_start_ns"][1:] - done["end_ns"][:-1]
    assert gaps.tolist() == [gap_ns, gap_ns]
    # None starts early.
    assert (done["start_ns"] >= done["planned_start_ns"]).all()


def received_bytes(pair: Pair) -> list[int]:
    """Return how much each TCP socket of the pair has received."""
    found = (re.findall(r"bytes_received:(\d+)", pair.run(i, "ss -Htin")) for i in (0, 1))
    return [int(text) for side in found for text in side]


def test_stop_cuts_many_flows_at_once(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.limit("100mbit")
    # The other way too: at a veth's own speed 32 flows take a whole processor.
    pair.run(1, "tc qdisc add dev eth0 root tbf rate 100mbit burst 3000 limit 100000")
    flows = [Flow("h1", "h2") for _ in range(32)] + [Flow("h2", "h1") for _ in range(32)]
    # A lost SYN is repeated after a second or more, so each flow's own socket is asked. What a
    # socket holds unread cannot exceed tcp_rmem's default until the generator reads from it.
    rmem_bytes = int(pair.run(0, "cat /proc/sys/net/ipv4/tcp_rmem").split()[1])

    run_plan(generator, *flows)
    # Two processes each time that it is asked.
    wait_for(
        lambda: sum(n > rmem_bytes for n in received_bytes(pair)) == 64, timeout_s=60, every_s=0.2
    )
    assert view.hosts()["active_flows"].tolist() == [32, 32]
    assert generator.stop() > 0
    cut = records(view)
    assert sorted(cut["id"].tolist()) == list(range(64))
    assert set(cut["outcome"].tolist()) == {CUT}
    assert (cut["bytes"] > 0).all()
    assert int(view.read()[0]["flows_active"]) == 0
    for side in (0, 1):
        assert pair.run(side, "ss -Htan") == ""
        assert pair.run(side, "ss -Huan") == ""


def test_restart_is_clean_and_counters_go_on(generator: Generator, view: GeneratorView) -> None:
    for round_number in range(1, 6):
        run_plan(generator, Flow("h1", "h2", size_bytes=50_000))
        wait_for(lambda: view.finished)
        assert len(records(view)) == 1
        assert int(view.hosts()["rx_bytes"][1]) == 50_000 * round_number


def test_unreachable_host_fails_and_is_recorded(
    pair: Pair, generator: Generator, view: GeneratorView
) -> None:
    pair.run(0, "ip route add blackhole 10.0.0.2/32")
    run_plan(generator, Flow("h1", "h2", size_bytes=10))
    wait_for(lambda: len(records(view)) == 1)
    (record,) = records(view)
    assert (record["outcome"], record["bytes"]) == (REFUSED, 0)


def test_bad_requests_are_refused_and_survived(generator: Generator) -> None:
    with pytest.raises(BackendError, match="no-such-cc"):
        generator.load(Plan("test", 0, (Flow("h1", "h2"),)), {"h1": "no-such-cc"})
    with pytest.raises(ConfigError, match="'h9'"):
        generator.load(Plan("test", 0, (Flow("h1", "h9"),)))
    with pytest.raises(BackendError, match="unknown command: jump"):
        generator._request("jump")
    with pytest.raises(BackendError, match="without its memory file"):
        generator._request("plan 1\n- -")
    fd = plan_file(Plan("test", 0, (Flow("h1", "h2"),)), ["h1", "h2"])
    with pytest.raises(BackendError, match="shorter than it says"):
        generator.load_file(fd, 2, {})
    for offset, field in ((0, "source"), (4, "destination"), (12, "port"), (24, "size")):
        broken = plan_file(Plan("test", 0, (Flow("h1", "h2"),)), ["h1", "h2"])
        os.pwrite(broken, (2**31).to_bytes(4, "little") * 2, offset)
        with pytest.raises(BackendError, match=f"wrong {field} in flow 0"):
            generator.load_file(broken, 1, {})
        os.close(broken)
    os.close(fd)
    generator.load(Plan("test", 0, (Flow("h1", "h2"),)))


def test_an_idle_generator_gives_signs_of_life(generator: Generator, view: GeneratorView) -> None:
    first_ns = view.heartbeat_ns
    wait_for(lambda: view.heartbeat_ns > first_ns)
    due_ns = time.monotonic_ns() + 10_000_000
    os.pwrite(generator.shm_fd, due_ns.to_bytes(8, "little"), SAMPLE_DUE_AT)
    assert wait_for_sample(view, due_ns) >= due_ns


def wait_for_sample(view: GeneratorView, least_ns: int) -> int:
    """Return when the first sample at or after this time was taken."""
    wait_for(lambda: int(view.read()[0]["sample_ns"]) >= least_ns)
    return int(view.read()[0]["sample_ns"])


def test_death_is_reported(generator: Generator) -> None:
    os.kill(generator.pid, 9)
    with pytest.raises(BackendError, match="dead"):
        generator.stop()


def test_closing_the_control_socket_ends_the_process(pair: Pair) -> None:
    generator = Generator(pair.hosts())
    pid = generator.pid
    generator.close()
    generator.close()
    assert not Path(f"/proc/{pid}").exists()


def test_readers_never_see_a_torn_block(generator: Generator, view: GeneratorView) -> None:
    run_plan(generator, *(Flow("h1", "h2", "udp", rate_bps=1_000_000) for _ in range(8)))
    latest = 0
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        header, hosts = view.read()
        assert int(header["sequence"]) % 2 == 0
        assert int(header["sequence"]) >= latest
        assert int(header["flows_active"]) == int(hosts["active_flows"].sum())
        latest = int(header["sequence"])
