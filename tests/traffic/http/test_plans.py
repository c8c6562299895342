"""HTTP servers and plans of requests: what is refused, what files keep, what the generator gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.errors import ConfigError
from dcgym.traffic.http import (
    REQUEST_DTYPE,
    SERVER_DTYPE,
    HttpServer,
    RequestKind,
    RequestPlan,
    RequestResults,
    Resource,
    ServerRows,
    cpu_and_io,
    load_requests,
    save_requests,
)
from dcgym.traffic.http import results as http_results
from dcgym.traffic.http.servers import rows_bytes, server_lines

KINDS = (RequestKind("page", ("cpu", "io", "cpu")), RequestKind("file", ("io",), "/static/a"))


def make(**changes: Any) -> RequestPlan:
    requests = np.zeros(3, REQUEST_DTYPE)
    requests["start_ns"] = (5, 3, 4)
    requests["client"] = (0, 1, 0)
    requests["target"] = (1, 0, 1)
    requests["application"] = (0, 1, 0)
    requests["bytes"] = (12_288, 0, 1)
    fields = {
        "name": "three",
        "seed": 7,
        "clients": ("c1", "c2"),
        "targets": (("10.0.0.9", 80), ("fd00::9", 8000)),
        "applications": KINDS,
        "requests": requests,
        "demands_ns": [[10, 20, 30], [40, 0, 0], [1, 2, 3]],
    }
    return RequestPlan(**{**fields, **changes})


def with_row(field: str, value: int) -> dict[str, Any]:
    requests = make().requests.copy()
    requests[field][1] = value
    return {"requests": requests}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resources": ()}, "server.resources: value 0"),
        ({"resources": [Resource(f"r{i}") for i in range(9)]}, "1 to 8 Resource objects"),
        ({"resources": [Resource("a"), Resource("a")]}, "names that differ"),
        ({"resources": ["cpu"]}, "server.resources: value 'cpu'"),
        ({"resources": [Resource("cpu", limit=3)]}, "server.cpu_limit: value 3"),
        ({"cpu": "burned"}, "did you mean 'burnt'"),
        ({"address": "h2"}, "an IPv4 or IPv6 address"),
        ({"port": 70_000}, "server.port: value 70000"),
        ({"host": ""}, "the name of a host"),
    ],
)
def test_a_wrong_server_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HttpServer(**{"host": "h1", **changes})


def test_servers_survive_plain_data() -> None:
    gpu = Resource("gpu", 4, 0.5, "processor-sharing", 64)
    server = HttpServer("h2", (gpu, Resource("disk", 2, limit=5)))
    assert HttpServer.from_dict(json.loads(json.dumps(server.to_dict()))) == server
    assert HttpServer.from_dict({"host": "h2"}).resources == cpu_and_io()
    with pytest.raises(ConfigError, match="worker"):
        HttpServer.from_dict({"host": "h2", "worker": 4})


def test_the_generator_reads_the_servers_in_its_order() -> None:
    own = (Resource("cpu"), Resource("gpu-0", 3, 2.5, limit=9))
    other = HttpServer("h1", own, "burnt", 5, 7, "::1", 81)
    servers = [HttpServer("h2", cpu_and_io(2)), other]
    lines = server_lines(servers, ("h1", "h2")).splitlines()
    assert lines == [
        "2",
        *("1 * 8000 0 128 60000000000 2", "cpu 2 2 1.0 0", "io 1 65536 1.0 0"),
        *("0 ::1 81 1 5 7 2", "cpu 1 1 1.0 0", "gpu-0 3 3 2.5 9"),
    ]


def test_two_servers_share_no_port_of_a_host() -> None:
    with pytest.raises(ConfigError, match=r"servers\[1\].port: value 8000"):
        server_lines([HttpServer("h1"), HttpServer("h1")], ("h1",))
    with pytest.raises(ConfigError, match=r"servers\[0\].host: value 'h9'"):
        server_lines([HttpServer("h9")], ("h1",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (with_row("client", 2), r"plan.requests\[1\], client: value 2"),
        (with_row("target", 9), r"plan.requests\[1\], target: value 9"),
        (with_row("application", 5), r"plan.requests\[1\], application: value 5"),
        (with_row("start_ns", -1), r"plan.requests\[1\], start_ns: value -1"),
        (with_row("bytes", 2**31), r"plan.requests\[1\], bytes: value 2147483648"),
        (
            {"demands_ns": [[1, 2, 3], [4, 5, 0], [6, 7, 8]]},
            r"requests\[1\], demands_ns\[1\]: value 5",
        ),
        ({"demands_ns": [[1], [2], [3]]}, "a column for each of 3 stages"),
        ({"targets": (("ten", 80), ("fd00::9", 80))}, "an IPv4 or IPv6 address"),
        ({"applications": (KINDS[0], KINDS[0])}, "names that differ"),
    ],
)
def test_a_wrong_plan_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**changes)


@pytest.mark.parametrize("path", ["work", "/a b", "/work?x=1", "/\r\nHost: x", ""])
def test_a_path_must_fit_a_request_line(path: str) -> None:
    with pytest.raises(ConfigError, match="a path such as /work"):
        RequestKind("a", path=path)


@pytest.mark.parametrize("name", ["", "a b", "a&b", "a=b", "1st", "x" * 33, "\u00e9t\u00e9", "a\n"])
def test_names_of_resources_fit_urls_and_lines(name: str) -> None:
    for make_it in (Resource, lambda one: RequestKind("a", (one,))):
        with pytest.raises(ConfigError, match="a letter, and up to 31 letters"):
            make_it(name)


def test_demands_add_up_by_resource() -> None:
    plan = make()
    assert plan.demand_ns("cpu").tolist() == [40, 0, 4]
    assert plan.demand_ns("io").tolist() == [20, 40, 2]
    assert plan.demand_ns("gpu").tolist() == [0, 0, 0]
    assert plan.resources == ("cpu", "io")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_keeps_the_plan(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plan{suffix}"
    plan = make(timeout_ns=5)
    save_requests(plan, path)
    loaded = load_requests(path)
    assert (loaded.name, loaded.seed, loaded.timeout_ns) == ("three", 7, 5)
    # The lists come back in the order of their first use.
    assert [loaded.clients[i] for i in loaded.requests["client"]] == ["c1", "c2", "c1"]
    assert [loaded.targets[i][0] for i in loaded.requests["target"]] == [
        *("fd00::9", "10.0.0.9", "fd00::9")
    ]
    assert {kind.name: kind for kind in loaded.applications} == {k.name: k for k in KINDS}
    assert loaded.requests["start_ns"].tolist() == [5, 3, 4]
    assert loaded.requests["bytes"].tolist() == [12_288, 0, 1]
    np.testing.assert_array_equal(loaded.demands_ns, plan.demands_ns)
    again = tmp_path / f"again{suffix}"
    save_requests(loaded, again)
    assert load_requests(again) == loaded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start_ns,client,address\n1,c1,10.0.0.1\n", "a column port"),
        ("start_ns,client,address,port\nx,c1,10.0.0.1,80\n", "line 2, start_ns: value 'x'"),
        ("start_ns,client,address,port\n1,c1,10.0.0.1,0\n", "line 2, port: value 0"),
        ("start_ns,client,address,port,resources\n1,c1,10.0.0.1,80,g u\n", "line 2, .*'g u'"),
        ("start_ns,client,address,port,demand\n1,c1,10.0.0.1,80,3\n", "column: value 'demand'"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_requests(path)


def test_the_generator_gets_only_the_stages_there_are() -> None:
    results = RequestResults(make(), ("s1", "c2", "c1"))
    try:
        content = os.pread(results.fd, 10_000, 0)
        header = np.frombuffer(content, http_results.HEADER_DTYPE, 1)[0]
        assert (header["n_requests"], header["n_stages"]) == (3, 7)
        offset = http_results.HEADER_DTYPE.itemsize
        stages = np.frombuffer(content, http_results.STAGE_DTYPE, 7, offset)
        assert stages["duration_ns"].tolist() == [10, 20, 30, 40, 1, 2, 3]
        assert stages["resource"].tolist() == [0, 1, 0, 1, 0, 1, 0]
        rows = np.frombuffer(content, http_results.WIRE_DTYPE, 3, offset + stages.nbytes)
        assert rows["client"].tolist() == [2, 1, 2]
        assert rows["first_stage"].tolist() == [0, 3, 4]
        assert rows["n_stages"].tolist() == [3, 1, 3]
        assert results.records()["server"].tolist() == [-1, -1, -1]
        assert results.table()["outcome"].to_list() == ["pending"] * 3
    finally:
        results.close()
    with pytest.raises(ConfigError, match=r"plan.clients: value 'c1'"):
        RequestResults(make(), ("c2",))


def test_rows_are_read_whole_or_not_at_all() -> None:
    fd = os.memfd_create("rows")
    os.ftruncate(fd, rows_bytes(2))
    row = np.zeros(2, SERVER_DTYPE)
    row["busy"], row["sequence"] = (3, 4), (2, 6)
    os.pwrite(fd, row.tobytes(), 0)
    rows = ServerRows(fd, 2)
    os.close(fd)
    assert rows.read()["busy"].tolist() == [3, 4]
    rows.close()
