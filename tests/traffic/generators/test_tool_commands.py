"""Command lines and results of the traffic tools, against their documented ones."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dcgym
from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.traffic.generators.shared_block import SharedBlock
from dcgym.traffic.generators.tools import Order, Result, blocks, find_tool, require_generator
from dcgym.traffic.generators.view import HOST_DTYPE, GeneratorView, block_bytes

ORDER = Order("10.0.0.1", "10.0.0.2", 5201)

# From the README of goben 1.1.0.
GOBEN_LOG = """\
2026/06/12 00:36:40 0/1  report   clientWriter rate: 21837.537818 Mbps   2729 snd/s
2026/06/12 00:36:41 handleConnectionClient: 2s timer
2026/06/12 00:36:41 handleConnectionClient: closing: 0/1 127.0.0.1:8080
2026/06/12 00:36:41 aggregate reading: 20748.578718 Mbps 3006 recv/s
2026/06/12 00:36:41 aggregate writing: 21170.406833 Mbps 2646 send/s
"""


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
    result = find_tool("iperf3").result(ORDER, json.dumps(sender), json.dumps(receiver))
    assert result is not None
    assert (result.received_bytes, result.sent_bytes, result.seconds) == (1000, 1500, 0.25)
    assert (result.retransmits, result.srtt_ns, result.min_rtt_ns) == (3, 1_200_000, 300_000)


@pytest.mark.parametrize("text", ["", "{", '{"error": "unable to connect"}', '{"end": {}}'])
@pytest.mark.parametrize("tool", ["goben", "iperf3"])
def test_a_tool_that_reports_nothing_has_no_result(tool: str, text: str) -> None:
    assert find_tool(tool).result(ORDER, text, text) is None


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
        texts = json.dumps(sender), json.dumps(receiver)
        check_amounts(find_tool("iperf3").result(ORDER, *texts))
    cut = json.dumps(nearly)[: len(json.dumps(nearly)) // 2]
    assert find_tool("iperf3").result(ORDER, cut, cut) is None


@FUZZ
@given(rate=st.text("0123456789.", min_size=1), timer=st.text("0123456789.hmsuµ ", min_size=1))
def test_garbled_goben_logs(rate: str, timer: str) -> None:
    log = GOBEN_LOG.replace("21170.406833", rate).replace(" 2s timer", f" {timer} timer")
    check_amounts(find_tool("goben").result(ORDER, log, ""))


@FUZZ
@given(cut=st.integers(0, len(GOBEN_LOG)), noise=st.binary(max_size=30))
def test_damaged_goben_logs(cut: int, noise: bytes) -> None:
    log = GOBEN_LOG[:cut] + noise.decode(errors="replace") + GOBEN_LOG[cut:]
    check_amounts(find_tool("goben").result(ORDER, log, noise.decode(errors="replace")))


def test_deep_reports_are_no_results() -> None:
    assert find_tool("iperf3").result(ORDER, "[" * 100_000, "[" * 100_000) is None


def test_goben_sends_a_size_by_its_rate_and_its_time() -> None:
    order = replace(ORDER, size_bytes=1_000_000, rate_bps=8_000_000, port=8080)
    commands = find_tool("goben").commands(order)
    assert commands.listener[:3] == ["goben", "--listeners", "10.0.0.2:8080"]
    assert option(commands.connector, "--hosts") == "10.0.0.2:8080"
    assert option(commands.connector, "--totalDuration") == "1000ms"
    assert float(option(commands.connector, "--maxSpeed")) == 8.0
    assert {"--tls=false", "--passiveServer"} <= set(commands.connector)
    assert "--udp" not in commands.connector
    udp = find_tool("goben").commands(replace(order, is_udp=True, duration_ns=500_000_000))
    assert "--udp" in udp.listener and "--udp" in udp.connector
    assert option(udp.connector, "--totalDuration") == "500ms"


def test_goben_refuses_a_size_without_a_rate() -> None:
    with pytest.raises(ValueError, match="goben needs a rate"):
        find_tool("goben").commands(replace(ORDER, size_bytes=1000))


@pytest.mark.parametrize(("timer", "seconds"), [("2s", 2), ("1m0.5s", 60.5), ("250ms", 0.25)])
def test_goben_results_come_from_its_log(timer: str, seconds: float) -> None:
    log = GOBEN_LOG.replace(" 2s timer", f" {timer} timer")
    result = find_tool("goben").result(ORDER, log, "")
    assert result is not None
    assert result.seconds == pytest.approx(seconds)
    assert result.sent_bytes == pytest.approx(21170.406833e6 / 8 * seconds, abs=1)


def test_generators_are_checked_by_name_and_by_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"generator.*iperf2.*native.*iperf3.*goben"):
        dcgym.make_env(generator="iperf2")
    monkeypatch.setenv("PATH", "/nowhere")
    require_generator("native")
    with pytest.raises(FeatureNotSupported, match="go install"):
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
