"""Look at a running emulation from another process, without any effect on it.

Its telemetry is a memory file of the environment's process, which the run's registry file names;
mapping it read-only through proc(5) needs the permission to trace that process.
"""

from __future__ import annotations

import os
import time

import numpy as np

from dcgym.backends.emulation.session.runs import (
    RecordedHost,
    RecordedPort,
    Run,
    read_network,
)
from dcgym.backends.emulation.session.session import STALE_NS
from dcgym.backends.records import Record
from dcgym.errors import BackendError
from dcgym.monitors import Snapshot, TelemetryRegion

__all__ = ["RunView"]

REGION_NAME = "/memfd:dcgym-telemetry"


class RunView:
    """The telemetry of one run, mapped read-only.

    Raises:
        BackendError: It cannot be reached; the message says why.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        network = read_network(run.id)
        if network is None:
            raise BackendError(f"run {run.id} is still building its network")
        self._network = network
        fd = _open_region(run, network.fd)
        self._region = TelemetryRegion(len(network.ports), len(network.hosts), fd)
        self._before = self._read()

    def sample(self) -> Record:
        """Return the state now, with rates since the sample before (or since the start).

        Raises:
            BackendError: The run has ended or is silent.
        """
        before, self._before = self._before, self._read()
        now, header = self._before, self._region.header()
        seconds = max((now.time_ns - before.time_ns) / 1e9, 1e-9)
        if not header["heartbeat_ns"]:
            raise BackendError(f"run {self._run.id} has not begun an episode yet")
        age_ns = time.monotonic_ns() - header["heartbeat_ns"]
        if age_ns > STALE_NS:
            raise BackendError(f"run {self._run.id} is silent for {age_ns / 1e9:.1f} s")
        return {
            "run": self._run.id,
            "name": self._run.name,
            "topology": self._network.name,
            "age_ms": age_ns / 1e6,
            "loop": _loop(header),
            "ports": [
                _port(entry, row, earlier, seconds)
                for entry, row, earlier in zip(
                    self._network.ports, now.ports, before.ports, strict=True
                )
            ],
            "hosts": [
                _host(entry, row, earlier, seconds)
                for entry, row, earlier in zip(
                    self._network.hosts, now.hosts, before.hosts, strict=True
                )
            ],
        }

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        self._region.close()

    def _read(self) -> Snapshot:
        if not self._run.alive:
            raise BackendError(f"run {self._run.id} has ended")
        return self._region.read()


def _open_region(run: Run, number: int) -> int:
    path = f"/proc/{run.owner_pid}/fd/{number}"
    try:
        # A process that came later under the same number has no such file.
        if not os.readlink(path).startswith(REGION_NAME):
            raise BackendError(f"run {run.id} is dead: its telemetry is gone")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        hint = f"no permission to read process {run.owner_pid}, be its user or root"
        raise BackendError(f"run {run.id}: {hint}") from None
    except OSError:
        raise BackendError(f"run {run.id} is dead: its telemetry is gone") from None


def _loop(header: dict[str, int]) -> dict[str, float]:
    times = ("step", "interval", "action_latency", "overrun", "worst_overrun")
    return {
        "steps": header["steps"],
        "late_steps": header["late_steps"],
        **{f"{name}_ms": header[f"{name}_ns"] / 1e6 for name in times},
    }


def _difference(row: np.void, earlier: np.void, name: str) -> int:
    # An episode that began in between has set the counter back.
    return max(int(row[name]) - int(earlier[name]), 0)


def _port(port: RecordedPort, row: np.void, earlier: np.void, seconds: float) -> Record:
    sent_bps = _difference(row, earlier, "tx_bytes") * 8 / seconds
    return {
        "name": port.name,
        "rate_bps": port.rate_bps,
        "load": sent_bps / port.rate_bps,
        "backlog_bytes": int(row["backlog_bytes"]),
        "peak_bytes": int(row["peak_bytes"]),
        "queue_bytes": port.queue_bytes,
        "drops_per_s": _difference(row, earlier, "drops") / seconds,
        "marks_per_s": _difference(row, earlier, "marks") / seconds,
    }


def _host(host: RecordedHost, row: np.void, earlier: np.void, seconds: float) -> Record:
    return {
        "name": host.name,
        "link_bps": host.rate_bps,
        "limit_bps": int(row["rate_bps"]),
        "sent_bps": _difference(row, earlier, "tx_bytes") * 8 / seconds,
        "goodput_bps": _difference(row, earlier, "rx_bytes") * 8 / seconds,
        "rtt_ms": int(row["srtt_ns"]) / 1e6,
        "backlog_bytes": int(row["backlog_bytes"]),
        "active_flows": int(row["active_flows"]),
    }
