"""The telemetry region: its layout, and reading it while somebody writes or has died writing."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from dcgym.errors import BackendError
from dcgym.monitors import HEADER, HOST, PORT, TelemetryRegion
from dcgym.monitors.network.layout import MAGIC, VERSION, check_layout
from dcgym.native import available, require

pytestmark = pytest.mark.skipif(not available(), reason="the native module is not built")

# As many blocks as a fat tree of 16 hosts has.
N_PORTS, N_HOSTS = 80, 16
HOSTILE_READS = 1500
HOSTILE_DEADLINE_S = 60.0
SEQUENCE_WORD = HEADER.names.index("sequence")
TIME_WORD = HEADER.names.index("time_ns")
HEADER_WORDS = HEADER.itemsize // 8

# Writes one number everywhere, then the next, as fast as it can and without a pause for readers.
WRITER = f"""
import mmap, sys
import numpy as np

fd, size, stop_inside = (int(argument) for argument in sys.argv[1:])
words = np.frombuffer(mmap.mmap(fd, size), "<u8")
words[0], words[1] = {MAGIC}, {VERSION}
body = words[{HEADER_WORDS}:]
number = 0
print("ready", flush=True)
while True:
    number += 1
    words[{SEQUENCE_WORD}] = 2 * number - 1
    words[{TIME_WORD}] = number
    body.fill(number)
    if stop_inside and number == stop_inside:
        print("inside", flush=True)
        sys.stdin.read()
    words[{SEQUENCE_WORD}] = 2 * number
"""


@pytest.fixture
def region() -> Iterator[TelemetryRegion]:
    with TelemetryRegion(N_PORTS, N_HOSTS) as made:
        yield made


def region_bytes() -> int:
    return HEADER.itemsize + N_PORTS * PORT.itemsize + N_HOSTS * HOST.itemsize


def start_writer(region: TelemetryRegion, stop_inside: int = 0) -> subprocess.Popen[str]:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(region.fd), str(region_bytes()), str(stop_inside)],
        pass_fds=[region.fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    return writer


def end(writer: subprocess.Popen[str]) -> None:
    writer.kill()
    writer.communicate()


def write_header(region: TelemetryRegion, **values: int) -> None:
    with mmap.mmap(region.fd, region_bytes()) as mapping:
        header = np.frombuffer(mapping, HEADER, 1)
        header["magic"], header["version"] = MAGIC, VERSION
        for name, value in values.items():
            header[name] = value
        del header


def test_python_and_c_agree_on_the_layout() -> None:
    assert check_layout(require().telemetry_layout()) == []
    assert require().telemetry_bytes(N_PORTS, N_HOSTS) == region_bytes()


def test_a_moved_field_a_longer_block_and_another_version_are_differences() -> None:
    compiled = require().telemetry_layout()
    moved = {**compiled, "host": {**compiled["host"], "drops": 8}}
    assert [line.split(":")[0] for line in check_layout(moved)] == ["host"]
    assert "port: 72 bytes" in check_layout({**compiled, "port_bytes": 80})[0]
    assert check_layout({**compiled, "version": VERSION + 1}) == ["magic or version"]


def test_no_block_is_torn_by_a_writer_at_full_speed(region: TelemetryRegion) -> None:
    writer = start_writer(region)
    raw = np.frombuffer(mmap.mmap(region.fd, region_bytes(), prot=mmap.PROT_READ), "<u8")
    seen, torn, unprotected_torn, last = 0, 0, 0, -1
    # A number of reads, not a time: how many fit into a second is the machine's business.
    deadline = time.monotonic() + HOSTILE_DEADLINE_S
    try:
        while seen < HOSTILE_READS:
            assert time.monotonic() < deadline
            snapshot = region.read()
            words = np.concatenate([snapshot.ports.view("<u8"), snapshot.hosts.view("<u8")])
            is_whole = (words == snapshot.time_ns).all() and snapshot.sequence == 2 * words[0]
            seen, torn = seen + 1, torn + (not is_whole)
            assert snapshot.sequence >= last
            last = snapshot.sequence
            unprotected_torn += len(set(raw[HEADER_WORDS:].tolist())) > 1
    finally:
        end(writer)
    assert torn == 0
    # The same memory read without the protection: the writer was hostile enough.
    assert unprotected_torn > 0


def test_a_writer_that_died_inside_a_write_is_an_error_at_the_deadline(
    region: TelemetryRegion,
) -> None:
    writer = start_writer(region, stop_inside=1000)
    assert writer.stdout is not None and writer.stdout.readline() == "inside\n"
    end(writer)
    began = time.monotonic()
    with pytest.raises(BackendError, match="for 1 s: its writer stopped"):
        region.read()
    # No sooner: a living writer may have lost its processor for as long.
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("wrong", [{"magic": 1}, {"version": VERSION + 1}])
def test_a_region_of_another_kind_is_refused(
    region: TelemetryRegion, wrong: dict[str, int]
) -> None:
    write_header(region, **wrong)
    with pytest.raises(BackendError, match="unknown layout"):
        region.read()


def test_a_snapshot_never_changes_afterwards(region: TelemetryRegion) -> None:
    write_header(region, time_ns=5, sequence=2)
    first = region.read()
    write_header(region, time_ns=6, sequence=4)
    assert (first.time_ns, region.read().time_ns) == (5, 6)
    assert not np.shares_memory(first.ports, region.read().ports)


def test_another_reader_maps_the_same_region(region: TelemetryRegion) -> None:
    write_header(region, time_ns=7, heartbeat_ns=8, source_ns=9)
    with TelemetryRegion(N_PORTS, N_HOSTS, os.dup(region.fd)) as reader:
        assert reader.read().time_ns == 7
        assert reader.heartbeats_ns() == (8, 9)


def test_close_twice() -> None:
    region = TelemetryRegion(1, 1)
    region.close()
    region.close()
