"""Does a real web server take the place of dcgym's, and wrk that of its clients?

How to run (root, with ``apt-get install nginx-light wrk curl``):
``.venv/bin/python -m experiments.speed.real_servers``

First three hosts on one bridge: a client, a server of dcgym's generator, nginx with one worker.
Both serve a page of 12 KiB that takes no CPU time, to wrk, which sends as fast as answers
come, and to dcgym's clients, which send at planned times on a connection each. Then the small
testbed with its two balancers: nginx takes the place of one of seven servers behind the virtual
address, and wrk asks that address.

Results to expect: every planned request ends as "finished" on both. wrk gets more from nginx, which
answers from a process of its own, than from the generator, which also keeps the time of all else.
At 500 planned requests a second, both answer in a fraction of a millisecond. Behind the balancers
nobody notices the newcomer: one in seven connections ends at nginx, and wrk reports no error.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.backends.emulation.pool.backend import EmulatedPool
from dcgym.backends.emulation.wire.messages import ChangeServer, Done
from dcgym.errors import BackendError
from dcgym.suites.results import machine, write_json
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.testing.star import Star
from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import REQUEST_DTYPE, HttpServer, RequestKind, RequestPlan
from dcgym.writing import prepare_folder

PAGE_BYTES = 12_288
PORT = 8000
LEAD_NS = 50_000_000
DEADLINE_S = 20.0
NGINX = """
worker_processes 1;
user root;
daemon {daemon};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {port}; root {folder}/pages; }}
}}
"""


@dataclass(frozen=True)
class Args:
    """Settings of the comparison."""

    out: Path = Path("runs/real_servers")
    seconds: float = 10.0
    requests_per_s: float = 500.0
    connections: int = 16
    seed: int = 1


@contextlib.contextmanager
def nginx_config(port: int = PORT, daemon: str = "off") -> Iterator[str]:
    """Write a configuration that serves one page at the path of dcgym's servers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pages").mkdir()
        (folder / "pages" / "work").write_bytes(b"d" * PAGE_BYTES)
        config = folder / "nginx.conf"
        text = NGINX.format(folder=folder, port=port, daemon=daemon)
        config.write_text(text, encoding="ascii")
        yield str(config)


@contextlib.contextmanager
def nginx(star: Star, host: str) -> Iterator[None]:
    """Run nginx in a host."""
    with nginx_config() as config:
        process = subprocess.Popen(star.command(host, ["nginx", "-c", config]))
        try:
            _wait_until_served(star, host, process)
            yield
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def _wait_until_served(star: Star, host: str, process: subprocess.Popen[bytes]) -> None:
    url = f"http://{star.addresses[star.names.index(host)]}:{PORT}/work"
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        argv = star.command("h1", ["curl", "-sfo", "/dev/null", url])
        if subprocess.run(argv, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise BackendError("nginx does not answer")


def wrk_command(url: str, args: Args) -> list[str]:
    """Return the command of one run."""
    return ["wrk", "-t1", f"-c{args.connections}", f"-d{args.seconds:g}s", "--latency", url]


def read_wrk(text: str) -> dict[str, float]:
    """Return wrk's responses a second and its median and p99 of the latency in ms."""
    if "Non-2xx" in text or "Socket errors" in text:
        raise BackendError(f"wrk met errors:\n{text}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    latencies = [_milliseconds(text, percent) for percent in (50, 99)]
    return {"wrk_per_s": float(rate[1]), "wrk_p50_ms": latencies[0], "wrk_p99_ms": latencies[1]}


def _milliseconds(text: str, percent: int) -> float:
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", text)
    assert found is not None, text
    return float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def run_planned(generator: Generator, address: str, args: Args) -> dict[str, float | int]:
    """Send Poisson arrivals and return how many ended well, and their latencies in ms."""
    count = round(args.requests_per_s * args.seconds)
    draw = np.random.default_rng(args.seed)
    requests = np.zeros(count, REQUEST_DTYPE)
    gaps_ns = draw.exponential(1e9 / args.requests_per_s, count)
    requests["start_ns"] = np.cumsum(gaps_ns).astype(np.int64)
    requests["bytes"] = PAGE_BYTES
    kinds = (RequestKind("page", ()),)
    demands = np.zeros((count, 0), np.int64)
    plan = RequestPlan("page", args.seed, ("h1",), ((address, PORT),), kinds, requests, demands)
    results = generator.load_requests(plan)
    try:
        generator.start(time.monotonic_ns() + LEAD_NS)
        deadline = time.monotonic() + args.seconds * 2 + DEADLINE_S
        while not results.finished and time.monotonic() < deadline:
            time.sleep(0.05)
        records = results.records()
    finally:
        results.close()
    done = records[records["outcome"] == 1]
    times_ms = (done["end_ns"] - done["start_ns"]) / 1e6
    p50, p99 = np.percentile(times_ms, (50, 99))
    return {
        "planned": count,
        "finished": len(done),
        "page_bytes": int(done["bytes"].min(initial=PAGE_BYTES)),
        "planned_p50_ms": float(p50),
        "planned_p99_ms": float(p99),
    }


def beside_each_other(args: Args) -> list[dict[str, Any]]:
    """Ask both servers alone, by wrk and by planned requests."""
    rows = []
    with Star(3) as star, Generator(star.hosts(), star.names) as generator, nginx(star, "h3"):
        generator.serve([HttpServer("h2", port=PORT)])
        for name, host in (("dcgym", "h2"), ("nginx", "h3")):
            address = star.addresses[star.names.index(host)]
            url = f"http://{address}:{PORT}/work?bytes={PAGE_BYTES}"
            argv = star.command("h1", wrk_command(url, args))
            text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            rows.append({"server": name, **read_wrk(text), **run_planned(generator, address, args)})
    return rows


def behind_balancers(args: Args) -> dict[str, Any]:
    """Let nginx take the place of the last server of the small testbed, and wrk ask for it."""
    pool = EmulatedPool(make_scenario("testbed-7", load=0.1))
    try:
        pool.reset([args.seed])
        pool.apply(PoolCommands(rules="round-robin"))
        pool.advance(50_000_000)
        ((address, port),) = pool.targets
        url = f"http://{address}:{port}/work?bytes={PAGE_BYTES}"
        with nginx_config(port, "on") as config:
            pool.session.call(ChangeServer(6, "kill"), Done)
            pool.execute("s7", "nginx", "-c", config)
            patience_s = args.seconds + DEADLINE_S
            report = pool.execute("c1", *wrk_command(url, args), timeout_s=patience_s)
            curls = f"for i in $(seq 70); do curl -sSIo /dev/stdout '{url}'; done"
            answers = pool.execute("c1", "sh", "-c", curls, timeout_s=patience_s)
            pool.execute("s7", "nginx", "-c", config, "-s", "quit")
    finally:
        pool.close()
    found = {name: answers.count(f"Server: {name}") for name in ("dcgym", "nginx")}
    return {"server": "six of dcgym and nginx behind two balancers", **read_wrk(report), **found}


def main(args: Args) -> None:
    """Measure both servers and print a table."""
    for tool in ("nginx", "wrk", "curl"):
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            sys.exit(f"this experiment needs {tool}: apt-get install nginx-light wrk curl")
    prepare_folder(args.out)
    rows = [*beside_each_other(args), behind_balancers(args)]
    for row in rows:
        shown = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print("  ".join(shown))
    write_json(args.out / "results.json", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--seconds", type=float, default=Args.seconds)
    given = parser.parse_args()
    main(Args(out=given.out, seconds=given.seconds))
