"""The NumPy view of the generator's memory against the layout the executable reports."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from dcgym.errors import BackendError, FeatureNotSupported
from dcgym.native import program_path
from dcgym.traffic.generators.view import (
    HEADER_DTYPE,
    HOST_DTYPE,
    MAGIC,
    PROBE_DTYPE,
    RECORD_DTYPE,
    VERSION,
    GeneratorView,
    RecordStream,
    block_bytes,
)
from dcgym.traffic.http import results as http_results
from dcgym.traffic.http.servers import SERVER_DTYPE
from dcgym.traffic.plans.records import FLOW_DTYPE

CAPACITY = 4


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("test")
    os.ftruncate(made, block_bytes(2, CAPACITY))
    yield made
    os.close(made)


def write_header(fd: int, **changes: int) -> None:
    header = np.zeros(1, HEADER_DTYPE)
    defaults = {"magic": MAGIC, "version": VERSION, "n_hosts": 2, "record_capacity": CAPACITY}
    for name, value in {**defaults, **changes}.items():
        header[name] = value
    os.pwrite(fd, header.tobytes(), 0)


def write_record(fd: int, number: int) -> None:
    record = np.zeros(1, RECORD_DTYPE)
    record["sequence"] = number + 1
    record["id"] = number
    os.pwrite(fd, record.tobytes(), block_bytes(2, number % CAPACITY))


@pytest.mark.native
def test_layout_equals_the_c_header() -> None:
    try:
        path = program_path("dcgym-generator")
    except FeatureNotSupported as error:
        pytest.skip(str(error))
    layout = json.loads(subprocess.check_output([str(path), "--layout"]))
    assert (layout["magic"], layout["version"]) == (MAGIC, VERSION)
    dtypes = {
        "header": HEADER_DTYPE,
        "host": HOST_DTYPE,
        "probe": PROBE_DTYPE,
        "record": RECORD_DTYPE,
        "flow": FLOW_DTYPE,
        "http_server": SERVER_DTYPE,
        "http_header": http_results.HEADER_DTYPE,
        "http_stage": http_results.STAGE_DTYPE,
        "http_request": http_results.WIRE_DTYPE,
        "http_result": http_results.RESULT_DTYPE,
    }
    for name, dtype in dtypes.items():
        assert layout[name]["size"] == dtype.itemsize
        fields = dtype.fields or {}
        offsets = {key: [field[1], field[0].itemsize] for key, field in fields.items()}
        assert layout[name]["fields"] == offsets


def test_another_layout_is_refused(fd: int) -> None:
    with pytest.raises(BackendError, match="another layout"):
        GeneratorView(fd)
    write_header(fd, version=VERSION + 1)
    with pytest.raises(BackendError, match="another layout"):
        GeneratorView(fd)


def test_records_of_the_current_plan_only(fd: int) -> None:
    for number in range(3):
        write_record(fd, number)
    write_header(fd, record_count=3, record_base=1)
    assert GeneratorView(fd).records()["id"].tolist() == [1, 2]


def test_an_overrun_ring_keeps_the_newest_records(fd: int) -> None:
    for number in range(10):
        write_record(fd, number)
    write_header(fd, record_count=10)
    assert GeneratorView(fd).records()["id"].tolist() == [6, 7, 8, 9]
    # Another one is being written, over the oldest.
    record = np.zeros(1, RECORD_DTYPE)
    os.pwrite(fd, record.tobytes(), block_bytes(2, 10 % CAPACITY))
    assert GeneratorView(fd).records()["id"].tolist() == [7, 8, 9]


def test_a_stream_keeps_what_the_ring_has_forgotten_and_counts_what_it_missed(fd: int) -> None:
    write_header(fd)
    stream = RecordStream(GeneratorView(fd))
    for number in range(6):
        write_record(fd, number)
        write_header(fd, record_count=number + 1)
        stream.poll(least=2)
    assert stream.records()["id"].tolist() == list(range(6))
    assert stream.lost == 0
    for number in range(6, 6 + CAPACITY + 3):
        write_record(fd, number)
    write_header(fd, record_count=6 + CAPACITY + 3)
    assert stream.records()["id"].tolist() == [*range(6), *range(9, 9 + CAPACITY)]
    assert stream.lost == 3
    # A new plan begins: the stream forgets the old one.
    write_header(fd, record_count=6 + CAPACITY + 3, record_base=6 + CAPACITY + 3)
    assert len(stream.records()) == 0
    assert stream.lost == 0


def test_a_writer_that_died_while_writing_is_an_error(fd: int) -> None:
    write_header(fd, sequence=3)
    with pytest.raises(BackendError, match="died"):
        GeneratorView(fd).read()


def test_close_keeps_earlier_copies(fd: int) -> None:
    write_header(fd, sequence=2, flows_active=5)
    view = GeneratorView(fd)
    header, hosts = view.read()
    view.close()
    assert int(header["flows_active"]) == 5
    assert len(hosts) == 2
