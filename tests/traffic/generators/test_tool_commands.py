"""Command lines and results of the traffic tools, against their documented ones."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import dcgym
from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.traffic.generators.goben import GOBEN, paced_mbps
from dcgym.traffic.generators.shared_block import SharedBlock
from dcgym.traffic.generators.tool import Order, Result, Seen, Tool, blocks
from dcgym.traffic.generators.tool_ports import listening_ports
from dcgym.traffic.generators.tools import find_tool, require_generator
from dcgym.traffic.generators.view import HOST_DTYPE, GeneratorView, block_bytes

ORDER = Order("10.0.0.1", "10.0.0.2", 5201)

# Recorded runs of iperf3 3.12 and goben 1.1.0 over a link of 10 Mbit/s; see the README there.
TRANSCRIPTS = Path(__file__).parent / "transcripts"
RUNS: dict[str, dict[str, Any]] = yaml.safe_load((TRANSCRIPTS / "runs.yaml").read_text("utf-8"))


def transcript(name: str) -> tuple[Tool, Order, Seen]:
    """Return the tool of a recorded run, its order, and what was seen of it."""
    run = RUNS[name]
    sender, receiver = (
        (TRANSCRIPTS / f"{name}.{side}.txt").read_text("utf-8") for side in ("sender", "receiver")
    )
    seen = Seen(sender, receiver, run["read_bytes"], run["written_bytes"], run["seconds"])
    order = Order("10.0.0.1", "10.0.0.2", 5201, **run["order"])
    return find_tool(name.partition("-")[0]), order, seen


GOBEN_SENDER, GOBEN_RECEIVER = (
    (TRANSCRIPTS / f"goben-duration.{side}.txt").read_text("utf-8")
    for side in ("sender", "receiver")
)


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


@pytest.mark.parametrize("size_bytes", [1, 131_072, 131_073, 1_000_003, 10**9 + 7])
def test_blocks_hold_a_size_with_less_than_a_byte_each_to_spare(size_bytes: int) -> None:
    n_blocks, each_bytes = blocks(size_bytes, 131_072)
    assert each_bytes <= 131_072
    assert 0 <= n_blocks * each_bytes - size_bytes < n_blocks


def test_iperf3_has_the_receiver_of_a_tcp_flow_connect() -> None:
    order = replace(ORDER, size_bytes=1_000_000, rate_bps=5_000_000, congestion_control="reno")
    commands = find_tool("iperf3").commands(order)
    assert commands.receiver_connects
    assert option(commands.listener, "-B") == option(commands.connector, "-c") == "10.0.0.1"
    assert {"-s", "-1"} <= set(commands.listener)
    assert {"-R", "--json"} <= set(commands.connector)
    assert option(commands.connector, "-n") == "1000000"
    assert 1_000_000 % int(option(commands.connector, "-l")) == 0
    assert option(commands.connector, "-b") == "5000000"
    assert option(commands.connector, "-C") == "reno"


def test_iperf3_sends_udp_from_its_client_and_forever_without_a_size() -> None:
    order = replace(ORDER, is_udp=True, rate_bps=1_000_000, congestion_control="cubic")
    commands = find_tool("iperf3").commands(order)
    assert not commands.receiver_connects
    assert option(commands.connector, "-c") == "10.0.0.2"
    assert "-u" in commands.connector and "-C" not in commands.connector
    assert option(commands.connector, "-t") == "0"


def test_iperf3_reports_what_the_receiver_got_and_the_sender_measured() -> None:
    stream = {"sender": {"mean_rtt": 1200, "min_rtt": 300}}
    sender = {"end": {"sum_sent": {"bytes": 1500, "retransmits": 3}, "streams": [stream]}}
    receiver = {"end": {"sum_received": {"bytes": 1000, "seconds": 0.25}}}
    seen = Seen(json.dumps(sender), json.dumps(receiver))
    result = find_tool("iperf3").result(ORDER, seen)
    assert result is not None
    assert (result.received_bytes, result.sent_bytes, result.seconds) == (1000, 1500, 0.25)
    assert (result.retransmits, result.srtt_ns, result.min_rtt_ns) == (3, 1_200_000, 300_000)


@pytest.mark.parametrize("text", ["", "{", '{"error": "unable to connect"}', '{"end": {}}'])
def test_a_tool_that_reports_nothing_has_no_result(text: str) -> None:
    assert find_tool("iperf3").result(ORDER, Seen(text, text)) is None


@pytest.mark.parametrize("name", [name for name in RUNS if not name.endswith("-broken")])
def test_a_recorded_run_is_counted_as_the_wire_counted(name: str) -> None:
    tool, order, seen = transcript(name)
    result = tool.result(order, seen)
    assert result is not None
    assert tool.failure(order, seen) == ""
    # The wire's count is less 66 bytes a packet, and includes the tool's own messages.
    assert result.received_bytes == pytest.approx(RUNS[name]["wire_bytes"], rel=0.01)
    if tool is GOBEN:
        # Ours; iperf3 tells its own, from when both sides have agreed to begin.
        assert result.seconds == pytest.approx(RUNS[name]["seconds"], rel=0.03)
    if order.size_bytes is not None and not order.is_udp:
        assert order.size_bytes <= result.received_bytes


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("iperf3-broken", "control socket has closed unexpectedly"),
        ("goben-broken", "connection reset by peer"),
    ],
)
def test_a_recorded_run_that_broke_is_a_failure_though_its_exit_code_is_0(
    name: str, error: str
) -> None:
    tool, order, seen = transcript(name)
    assert RUNS[name]["exit_code"] == 0
    assert error in tool.failure(order, seen)


def test_goben_s_interrupted_client_is_no_failure_and_has_no_timer() -> None:
    tool, order, seen = transcript("goben-cut")
    assert "received shutdown signal" in seen.sender and "timer" not in seen.sender
    assert tool.failure(order, seen) == ""


def test_a_receiver_whose_timer_ends_first_breaks_nothing() -> None:
    tool, order, seen = transcript("goben-duration")
    reset = GOBEN_SENDER.replace("use of closed network connection", "connection reset by peer")
    assert reset != GOBEN_SENDER
    assert tool.failure(order, replace(seen, sender=reset)) == ""
    early = GOBEN_RECEIVER.replace("handleConnection: 1.5s timer", "")
    assert "reset" in tool.failure(order, replace(seen, sender=reset, receiver=early))


@pytest.mark.parametrize("line", ["receiving ack: EOF", "TCP options failure: broken pipe"])
def test_goben_that_never_began_is_a_failure(line: str) -> None:
    seen = Seen(f"2026/06/12 00:36:41 handleConnectionClient: {line}\n")
    assert find_tool("goben").failure(ORDER, seen)


FUZZ = settings(max_examples=80, deadline=None, database=None, derandomize=True)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["end", "sum_sent", "sum_received", "streams", "sender", "bytes"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def check_amounts(result: Result | None) -> None:
    """A flow's record has 64 bits for each."""
    if result is not None:
        assert all(0 <= amount < 2**63 for amount in asdict(result).values())


@FUZZ
@given(report=VALUE, total=VALUE, seconds=VALUE, size=VALUE, rtt=VALUE)
def test_garbled_iperf3_reports(report: Any, total: Any, seconds: Any, size: Any, rtt: Any) -> None:
    nearly = {
        "end": {
            "sum_received": {"bytes": size, "seconds": seconds},
            "sum_sent": total,
            "streams": [{"sender": {"mean_rtt": rtt}}],
        }
    }
    for sender, receiver in ((report, nearly), (nearly, report), (nearly, nearly)):
        seen = Seen(json.dumps(sender), json.dumps(receiver))
        check_amounts(find_tool("iperf3").result(ORDER, seen))
        assert isinstance(find_tool("iperf3").failure(ORDER, seen), str)
    cut = json.dumps(nearly)[: len(json.dumps(nearly)) // 2]
    assert find_tool("iperf3").result(ORDER, Seen(cut, cut)) is None


@FUZZ
@given(rate=st.text("0123456789.", min_size=1), is_udp=st.booleans())
def test_garbled_goben_logs(rate: str, is_udp: bool) -> None:
    _, order, seen = transcript("goben-udp" if is_udp else "goben-duration")
    log = re.sub(r"rate: [0-9.]+", f"rate: {rate}", seen.receiver)
    check_amounts(find_tool("goben").result(order, replace(seen, receiver=log)))


@FUZZ
@given(cut=st.integers(0, len(GOBEN_RECEIVER)), noise=st.binary(max_size=30))
def test_damaged_goben_logs(cut: int, noise: bytes) -> None:
    log = GOBEN_RECEIVER[:cut] + noise.decode(errors="replace") + GOBEN_RECEIVER[cut:]
    seen = Seen(noise.decode(errors="replace"), log, 1000, 1000, 0.5)
    check_amounts(find_tool("goben").result(ORDER, seen))
    assert isinstance(find_tool("goben").failure(ORDER, seen), str)


def test_deep_reports_are_no_results() -> None:
    assert find_tool("iperf3").result(ORDER, Seen("[" * 100_000, "[" * 100_000)) is None


def test_goben_sends_by_time_and_rate() -> None:
    order = replace(ORDER, duration_ns=2_500_000_000, rate_bps=8_000_000, port=8080)
    commands = find_tool("goben").commands(order)
    assert commands.listener[:3] == ["goben", "--listeners", "10.0.0.2:8080"]
    assert option(commands.connector, "--hosts") == "10.0.0.2:8080"
    assert option(commands.connector, "--totalDuration") == "2500ms"
    assert option(commands.connector, "--tcpWriteSize") == "1448"
    assert {"--tls=false", "--passiveServer"} <= set(commands.connector)
    assert "--udp" not in commands.connector
    udp = find_tool("goben").commands(replace(order, is_udp=True, size_bytes=1_000_000))
    assert "--udp" in udp.listener and "--udp" in udp.connector
    assert option(udp.connector, "--totalDuration") == "1000ms"


def test_goben_sends_a_size_as_one_write_that_is_waited_for() -> None:
    tool = find_tool("goben")
    order = replace(ORDER, size_bytes=1_000_000)
    commands = tool.commands(order)
    assert not tool.keeps_size
    assert option(commands.connector, "--tcpWriteSize") == "1000000"
    # Eight megabits at this limit last beyond any episode.
    assert float(option(commands.connector, "--maxSpeed")) == 1e-6
    huge = tool.commands(replace(ORDER, size_bytes=10**12))
    assert option(huge.connector, "--tcpWriteSize") == "131072"
    assert "--maxSpeed" not in huge.connector


def goben_rate_bps(limit_mbps: float, block_bytes: int, report_s: float, lasts_s: float) -> float:
    """Return what goben sends: writes while its mean since the last report is below the limit."""
    now_s = began_s = sent_bytes = total_bytes = 0.0
    while now_s < lasts_s:
        elapsed_s = now_s - began_s
        if elapsed_s and sent_bytes * 8e-6 / elapsed_s > limit_mbps:
            now_s += 1e-4
            continue
        sent_bytes += block_bytes
        total_bytes += block_bytes
        if elapsed_s > report_s:
            began_s, sent_bytes = now_s, 0.0
        now_s += 1e-6
    return total_bytes * 8 / lasts_s


@pytest.mark.parametrize("report_s", [0.1, 1.0])
@pytest.mark.parametrize("rate_bps", [200_000, 2_000_000, 9_900_000])
def test_goben_s_limit_is_set_so_that_it_sends_at_the_rate(rate_bps: int, report_s: float) -> None:
    sent_bps = goben_rate_bps(paced_mbps(rate_bps, 1448, report_s), 1448, report_s, 12.0)
    assert sent_bps == pytest.approx(rate_bps, rel=0.01)


def test_ports_are_those_of_the_plan_where_no_other_flow_listens() -> None:
    ports = listening_ports([7000, 7000, 13001, 7000, 7001, 0], [0, 0, 0, 1, 0, 0])
    assert ports == [7000, 13002, 13001, 7000, 7001, 13003]


def test_thousands_of_flows_of_one_host_listen_at_different_ports() -> None:
    assert len(set(listening_ports([5001] * 4096, [3] * 4096))) == 4096


def test_generators_are_checked_by_name_and_by_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"generator.*iperf2.*native.*iperf3.*goben"):
        dcgym.make_env(generator="iperf2")
    monkeypatch.setenv("PATH", "/nowhere")
    require_generator("native")
    with pytest.raises(FeatureNotSupported, match="install goben"):
        require_generator("goben")


def test_the_view_reads_what_the_block_is_given() -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, block_bytes(2, 4))
    block = SharedBlock(fd, 2)
    hosts = np.zeros(2, HOST_DTYPE)
    hosts["rx_bytes"] = [7, 9]
    block.append({"id": 99})
    block.begin()
    for number in range(6):
        block.append({"id": number})
    block.publish({"heartbeat_ns": 5, "finished": 1}, hosts)
    view = GeneratorView(fd)
    # The ring holds the newest four of the plan's six.
    assert view.records()["id"].tolist() == [2, 3, 4, 5]
    assert view.hosts()["rx_bytes"].tolist() == [7, 9]
    assert (view.heartbeat_ns, view.finished, view.record_count) == (5, True, 7)
    view.close()
    os.close(fd)
