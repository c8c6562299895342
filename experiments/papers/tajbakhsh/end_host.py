"""What does a balancer on an end host cost beside one in the network (E4 and E8)?

Source: Tajbakhsh 2023, table 5.4: KNN at 20 requests a second of two servers with a SmartNIC each,
fixed shares of 5:1, with P4Hauler and with nginx on a core of a server or of a SmartNIC. Figure
4.5: a balancer on one core of the SmartNIC loses requests beyond 700 a second, the switch carries
8,000.

How to run: ``.venv/bin/python -m experiments.papers.tajbakhsh.end_host`` (root, nginx)

Here the network's balancer is the BPF program. nginx runs at the host of a device with one worker
process, and takes a worker of the device, as published. All requests are HTTP over TCP.

Results to expect: E4 holds by orders of magnitude: a request costs nginx some 250 us of a core, the
BPF program about one. E8 does not come out: at 55 % load one worker of five is not missed, and all
three places have the published latencies of the network, 440 ms on average and 1.25 s for the p99.
The source's explanation, a lost core, does not carry a factor of three.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.backends.emulation.devices.backend import EmulatedDevicePool
from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.records import FLOWS
from dcgym.errors import FeatureNotSupported
from dcgym.suites.results import machine, write_json
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.presets import accelerator_pool
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from dcgym.writing import prepare_folder
from experiments.papers.tajbakhsh.p4wise import shown
from experiments.speed.balancer import benchmark_frame, make_balancer

PLACES = ("network", "server", "smartnic")
# Mean and p99 in ms of table 5.4.
PUBLISHED = {
    "network": (446.35, 1215.29),
    "server": (1871.58, 3707.79),
    "smartnic": (1868.78, 3807.06),
}
PUBLISHED_GAIN = 3.0
# Figure 4.5: 8000 requests a second over 700.
PUBLISHED_RATIO = 8000 / 700
PORT = 8080
WEIGHTS = (5, 1)
SECOND = 10**9
# Of a short request: SYN, request, acknowledgement and FIN of the client.
PACKETS = 4
SYN, ACK = 2, 16
RUNS, REPETITIONS = 2000, 50

_CONFIG = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/errors;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    upstream devices {{
{servers}
    }}
    server {{
        listen {port} backlog=4096;
        location / {{
            proxy_pass http://devices;
            proxy_next_upstream off;
            proxy_read_timeout 120s;
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Args:
    """Settings.

    Attributes:
        seeds: Runs of each place.
        seconds: Length of a run, in real time.
        warm_up_s: Requests that come earlier are left out.
        rate: Requests a second of E8.
        busy_rate: Requests a second that nginx's cost is measured at.
        busy_s: How long.
    """

    seeds: int = 5
    seconds: float = 30.0
    warm_up_s: float = 5.0
    rate: float = 20.0
    busy_rate: float = 300.0
    busy_s: float = 8.0


class ProxiedPool(EmulatedDevicePool):
    """A pool whose clients ask an nginx at the host of a device, not the balancer in the network.

    Args:
        pool: Servers and devices.
        station: Number of the station at whose host nginx runs.
        **options: As of `EmulatedDevicePool`.
    """

    def __init__(self, pool: AcceleratorPool, station: int, **options: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dcgym-proxy-"))
        self._host = f"s{station + 1}"
        super().__init__(pool, transport="tcp", **options)

    def _build(self) -> DevicePod:
        is_new = self._pod is None
        running = super()._build()
        if is_new:
            topology = self._stations.topology()
            # Nobody is left out for a connection that a reset between episodes has cut.
            servers = [
                f"        server {topology.ip(f's{number + 1}')}:80"
                f" weight={WEIGHTS[device]} max_fails=0;"
                for number, (_, device) in enumerate(self._stations.homes)
            ]
            config = self._folder / "nginx.conf"
            folder = str(self._folder)
            config.write_text(
                _CONFIG.format(folder=folder, servers="\n".join(servers), port=PORT), "utf-8"
            )
            running.session.execute(self._host, ("nginx", "-p", folder, "-c", str(config)), 10.0)
            running.targets = ((topology.ip(self._host), PORT),)
        return running

    def cpu_ns(self) -> int:
        """Return the time that nginx's worker has used a processor."""
        master = (self._folder / "nginx.pid").read_text("ascii").strip()
        # Its only child; without a cache nginx has no other processes.
        script = f"set -- $(cat /proc/{master}/task/{master}/children); cat /proc/$1/schedstat"
        return int(self.running.session.execute(self._host, ("sh", "-c", script), 5.0).split()[0])

    def close(self) -> None:
        """End the emulator and nginx with it."""
        super().close()
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)


def pool_of(place: str) -> AcceleratorPool:
    """Return two servers with a SmartNIC each; where nginx runs a worker is missing."""
    pool = accelerator_pool(2, 1, "knn-pooled")
    [group] = pool.groups
    if place == "network":
        return pool
    devices = list(group.devices)
    at = PLACES.index(place) - 1
    devices[at] = replace(devices[at], workers=devices[at].workers - 1)
    first = replace(group, name="proxied", count=1, devices=tuple(devices))
    return pool.changed(groups=(first, replace(group, count=1)))


def make(place: str, pool: AcceleratorPool, args: Args) -> EmulatedDevicePool:
    """Return the pool with its balancer in the network or at a device of the first server."""
    longest_ns = int(max(args.seconds, args.busy_s) * SECOND)
    options: dict[str, Any] = {"record_limit": 10**6, "horizon_ns": longest_ns}
    if place == "network":
        return EmulatedDevicePool(pool, transport="tcp", **options)
    return ProxiedPool(pool, PLACES.index(place) - 1, **options)


def latencies(place: str, args: Args) -> dict[str, Any]:
    """Return E8's row of a place: mean and p99 over the seeds."""
    spec, means, tails, failed = pool_of(place), [], [], 0
    pool = make(place, spec, args)
    for seed in range(args.seeds):
        pool.reset([DeviceEpisode(seed, args.rate)])
        pool.apply(DeviceCommands("wrr", device_weights=WEIGHTS))
        pool.advance(int(args.seconds * SECOND))
        pool.read()
        rows = pool.records(FLOWS)
        rows = rows[rows["arrival_ns"] >= args.warm_up_s * SECOND]
        done = rows[rows["outcome"] == 0]
        failed += len(rows) - len(done)
        ms = (done["end_ns"] - done["arrival_ns"] + 2 * spec.latency_ns) / 1e6
        means.append(float(ms.mean()))
        tails.append(float(np.quantile(ms, 0.99)))
    pool.close()
    return {
        "balancer": place,
        "mean ms": shown(means),
        "p99 ms": shown(tails),
        "published": " / ".join(f"{value:.0f}" for value in PUBLISHED[place]),
        "failed": failed,
        "p99s": tails,
    }


def proxy_cost_us(args: Args) -> float:
    """Return the processor time that a request costs nginx, in microseconds."""
    pool = make("smartnic", accelerator_pool(1, 1, "dns", accelerator_weight=1.0), args)
    assert isinstance(pool, ProxiedPool)
    pool.reset([DeviceEpisode(1, args.busy_rate)])
    before = pool.cpu_ns()
    pool.advance(int(args.busy_s * SECOND))
    used, done = pool.cpu_ns() - before, int(pool.read().completed[0])
    pool.close()
    return used / max(done, 1) / 1e3


def program_cost_us() -> float:
    """Return the processor time that a request's packets cost the BPF program."""
    balancer = make_balancer(2, collect=True, devices=True)
    balancer.set_accelerators(0, 0, {1: "02:dc:00:01:01:00"})
    opens, follows = benchmark_frame(1024, SYN), benchmark_frame(1024, ACK)
    later = min(balancer.time_select(follows, RUNS) for _ in range(REPETITIONS))
    balancer.set_timeouts(0, 10**12, 10**12, 10**12)
    first = min(balancer.time_select(opens, RUNS) for _ in range(REPETITIONS))
    balancer.close()
    return float(first + (PACKETS - 1) * later) / 1e3


def verdicts(
    rows: Sequence[Mapping[str, Any]], proxy_us: float, program_us: float
) -> dict[str, str]:
    """Return what became of E4 and E8."""
    network, server, _ = (float(np.mean(row["p99s"])) for row in rows)
    return {
        "E4: the network carries ten times the requests": (
            "holds" if proxy_us > 10 * program_us else "fails"
        ),
        "E8: its p99 is a third of a server's balancer's": (
            "holds" if server > PUBLISHED_GAIN * network else "fails"
        ),
    }


def main(out: Path, args: Args | None = None) -> None:
    """Run both experiments and print their tables."""
    args = args or Args()
    if shutil.which("nginx") is None:
        raise FeatureNotSupported("nginx", "apt-get install nginx-light")
    prepare_folder(out)
    rows = [latencies(place, args) for place in PLACES]
    proxy_us, program_us = proxy_cost_us(args), program_cost_us()
    columns = [name for name in rows[0] if name != "p99s"]
    print("E8, table 5.4")
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(str(row[name]) for name in columns))
    print("E4, figure 4.5")
    for name, us in (("nginx", proxy_us), ("BPF program", program_us)):
        print(f"{name}: {us:.2f} us a request, {1e6 / us:.0f} requests a second of a core")
    found = verdicts(rows, proxy_us, program_us)
    for claim, verdict in found.items():
        print(f"{claim}: {verdict}")
    costs = {"nginx_us": proxy_us, "program_us": program_us, "published_ratio": PUBLISHED_RATIO}
    results = {"E8": rows, "E4": costs, "verdicts": found, "machine": machine()}
    write_json(out / "results.json", results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "accelerators" / "end_host")
    main(parser.parse_args().out)
