"""Real server programs behind the balancers: nginx with TLS and HTTP/2, and whatever listens."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import dcgym
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.emulation.wire.messages import ChangeServer, Done
from dcgym.backends.records import SUMMARY
from dcgym.errors import BackendError, CommandError, ConfigError
from dcgym.tasks.balancing import Event, make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.traffic.http.programs import PROGRAMS_FOLDER, SERVICE_NAME, ServerProgram, nginx
from tests.support.waiting import wait_for

MS = 1_000_000
PAGE_BYTES = 20_000
MakePool = Callable[[ServerProgram], EmulatedPool]
needs_nginx = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin") is None, reason="needs nginx"
)


def pool_of(program: ServerProgram, load: float = 0.05) -> EmulatedPool:
    """Return a pool of three servers and two balancers that no episode has begun in."""
    scenario = make_scenario("testbed-7", load=load)
    weak, strong = scenario.pool.groups
    smaller = scenario.changed(groups=(replace(weak, count=1), replace(strong, count=2)))
    return EmulatedPool(
        smaller, horizon_ns=60_000 * MS, options=PoolOptions(server_program=program)
    )


def begin(pool: EmulatedPool) -> EmulatedPool:
    pool.reset([1])
    pool.apply(PoolCommands(rules="round-robin"))
    pool.advance(50 * MS)
    return pool


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Make pools of a program each, whose episode has begun."""
    with contextlib.ExitStack() as ends:
        yield lambda program: begin(ends.enter_context(contextlib.closing(pool_of(program))))


def rows(pool: EmulatedPool, name: str) -> list[int]:
    found: list[int] = pool.server_rows()[name].tolist()
    return found


def hold(pool: EmulatedPool, n_connections: int, then: str = "pass") -> None:
    """Hold connections from a client to the service, each after a statement about it (s)."""
    ((address, port),) = pool.targets
    program = (
        "import socket, time\n"
        f"held = [socket.create_connection(('{address}', {port}))"
        f" for _ in range({n_connections})]\n"
        f"for s in held: {then}\n"
        "print('held', flush=True)\n"
        "time.sleep(60)"
    )
    script = (
        'echo > /run/held; python3 -c "$0" > /run/held 2>&1 & '
        "while ! grep -q held /run/held; do sleep 0.01; done"
    )
    pool.execute("c1", "sh", "-c", script, program, timeout_s=30.0)


@needs_nginx
@pytest.mark.emulation
def test_nginx_answers_tls_and_http_2_behind_a_virtual_address(make_pool: MakePool) -> None:
    pool = make_pool(nginx(tls=True, page_bytes=PAGE_BYTES))
    ((address, port),) = pool.targets
    trusted = f"--cacert {PROGRAMS_FOLDER}/s1/certificate.pem"
    named = f"--resolve {SERVICE_NAME}:{port}:{address} https://{SERVICE_NAME}:{port}/page"
    shown = "-w '%{http_version} %{http_code} %{size_download} %{ssl_verify_result}\\n'"
    for version, said in (("--http2", "2"), ("--http1.1", "1.1")):
        curl = f"for i in 1 2 3; do curl -sSo /dev/null {version} {shown} {trusted} {named}; done"
        # Each server has the same certificate.
        answers = pool.execute("c1", "sh", "-c", curl, timeout_s=30.0)
        assert answers == f"{said} 200 {PAGE_BYTES} 0\n" * 3
    asked = 6
    if shutil.which("h2load"):
        url = f"https://{address}:{port}/page"
        report = pool.execute("c2", "h2load", "-n500", "-c10", "-m5", url, timeout_s=30.0)
        assert "500 succeeded, 0 failed, 0 errored, 0 timeout" in report
        assert "Application protocol: h2\n" in report
        asked += 500
    with pytest.raises(CommandError, match="400"):
        pool.execute("c1", "curl", "-sSf", f"http://{address}:{port}/page")
    # Bad requests count, too.
    wait_for(lambda: sum(rows(pool, "completed")) == asked + 1)
    assert min(rows(pool, "accepted")) >= 2
    assert pool.records(SUMMARY).pcc_violations == 0


@pytest.mark.emulation
def test_of_any_program_the_connections_are_counted(make_pool: MakePool) -> None:
    program = ServerProgram(
        ("python3", "-m", "http.server", "<port>", "--bind", "0.0.0.0"),
        {"name": "<host> at <port>"},
        has_requests=False,
    )
    pool = make_pool(program)
    ((address, port),) = pool.targets
    curl = f"for i in $(seq 12); do curl -sS http://{address}:{port}/name; echo; done"
    answers = pool.execute("c1", "sh", "-c", curl, timeout_s=30.0).split("\n")[:12]
    assert {*answers} == {f"s{number} at {port}" for number in (1, 2, 3)}
    hold(pool, 6)
    wait_for(lambda: sum(rows(pool, "busy")) == 6)
    assert pool.read().truth.queue.tolist() == [rows(pool, "busy")]


@pytest.mark.emulation
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("sh", "-c", "echo no licence; exit 1"), "sh at s1: no licence"),
        (("no-such-program",), "no-such-program at s1: .*No such file"),
        (("sh", "-c", "sleep 1000 &"), "sh at s1: .* stays in the foreground"),
    ],
)
def test_a_program_that_does_not_start_is_one_line(
    make_pool: MakePool, command: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BackendError, match=said) as caught:
        make_pool(ServerProgram(command))
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def web_servers() -> Iterator[EmulatedPool]:
    """One pool of nginx for several tests."""
    with contextlib.closing(pool_of(nginx(page_bytes=PAGE_BYTES), load=0.5)) as pool:
        yield pool


@needs_nginx
@pytest.mark.emulation
def test_nginx_answers_the_scenario_and_reports_its_load(web_servers: EmulatedPool) -> None:
    pool = begin(web_servers)
    wait_for(lambda: pool.records(SUMMARY).completed > 20)
    figures = pool.records(SUMMARY)
    assert figures.lost == figures.rejected == 0
    assert rows(pool, "workers") == [2, 4, 4]
    # Who has begun a request and does not end it keeps the server busy.
    hold(pool, 1, "s.send(b'GET / HT')")
    wait_for(lambda: sum(rows(pool, "busy")) >= 1)
    assert pool.read().truth.queue.shape == (1, 3)


@needs_nginx
@pytest.mark.emulation
def test_a_program_is_killed_and_restarted(web_servers: EmulatedPool) -> None:
    pool, enough = begin(web_servers), 24
    wait_for(lambda: rows(pool, "completed")[0] >= enough)
    pool.session.call(ChangeServer(0, "kill"), Done)
    assert rows(pool, "heartbeat_ns")[0] == 0 and min(rows(pool, "heartbeat_ns")[1:]) > 0
    pool.session.call(ChangeServer(0, "restart"), Done)
    assert rows(pool, "heartbeat_ns")[0] > 0
    # It counts anew.
    assert rows(pool, "completed")[0] < enough


@needs_nginx
@pytest.mark.emulation
def test_an_episode_leaves_nothing_to_the_next(web_servers: EmulatedPool) -> None:
    pool = begin(web_servers)
    wait_for(lambda: sum(rows(pool, "completed")) > 0)
    hold(pool, 3, "s.send(b'GET / HT')")
    wait_for(lambda: sum(rows(pool, "busy")) >= 3)
    pool.reset([2])
    for name in ("busy", "accepted", "completed"):
        assert rows(pool, name) == [0, 0, 0]
    pool.apply(PoolCommands(rules="round-robin"))
    pool.advance(50 * MS)
    wait_for(lambda: pool.records(SUMMARY).completed > 0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, r"program.command: value \(\)"),
        ({"command": "nginx"}, "program.command: value 'nginx'"),
        ({"command": ["nginx"], "files": {"../x": ""}}, r"program.files: value '\.\./x'"),
        ({"command": ["nginx"], "report": "apache"}, "program.report: value 'apache'"),
        ({"command": ["nginx"], "tls": True}, "value 'tls'"),
    ],
)
def test_wrong_programs_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        EmulatedPool("testbed-7", options=PoolOptions(server_program=fields))


@needs_nginx
def test_an_environment_runs_the_program_that_its_configuration_names() -> None:
    env = dcgym.make_env(
        env="LoadBalancing-v1",
        backend={"name": "emulation", "server_program": {"name": "nginx", "page_bytes": 2000}},
        scenario={"preset": "testbed-7", "load": 0.1},
        interval="100ms",
        lead_in=0,
    )
    with contextlib.closing(env):
        env.reset(seed=1)
        pool = env.unwrapped.session.system.backend
        ((address, port),) = pool.targets
        said = pool.execute("c1", "curl", "-sS", f"http://{address}:{port}/page", timeout_s=20)
        assert said == "d" * 2000
        env.step(env.action_space.sample())


def test_programs_survive_plain_data_and_have_the_speed_that_they_have() -> None:
    program = ServerProgram(("serve", "<port>"), {"page": "<host>"})
    assert ServerProgram.from_dict(program.to_dict()) == program
    assert program.filled("<folder>/page", "s3", 80) == f"{PROGRAMS_FOLDER}/s3/page"
    options = PoolOptions(server_program=program)
    slower = make_scenario("testbed-7").changed(events=(Event(10**9, "capacity", "all", 0.5),))
    with pytest.raises(ConfigError, match=r"event.kind: value 'capacity'"):
        EmulatedPool(slower, options=options)
    datagrams = make_scenario("testbed-7").changed(transport="udp")
    with pytest.raises(ConfigError, match=r"scenario.transport: value 'udp'"):
        EmulatedPool(datagrams, options=options)
