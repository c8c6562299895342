"""A pool of devices whose balancer is nginx at the host of a device, with a quota of a core."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from dcgym.backends.emulation.devices.backend import EmulatedDevicePool
from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.errors import BackendError
from dcgym.tasks.accelerators.pool import AcceleratorPool
from experiments.papers.tajbakhsh.cpu_quota import CpuQuota

PORT = 8080
WEIGHTS = (5, 1)
START_S, POLL_S = 5.0, 0.01

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


class ProxiedPool(EmulatedDevicePool):
    """A pool whose clients ask an nginx at the host of a device, not the balancer in the network.

    Args:
        pool: Servers and devices.
        station: Number of the station at whose host nginx runs.
        cores: Processors that nginx may use (`CpuQuota`).
        **options: As of `EmulatedDevicePool`.

    Raises:
        ConfigError: An argument is not allowed.
        FeatureNotSupported: There is no quota of processor time on this machine.
    """

    def __init__(self, pool: AcceleratorPool, station: int, cores: float, **options: Any) -> None:
        self._host = f"s{station + 1}"
        super().__init__(pool, transport="tcp", **options)
        self._folder = Path(tempfile.mkdtemp(prefix="dcgym-proxy-"))
        self._quota = CpuQuota(cores)

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
            self._worker = self._find_worker(running.session)
            self._quota.add(self._worker)
            running.targets = ((topology.ip(self._host), PORT),)
        return running

    def _find_worker(self, session: EmulatorSession) -> int:
        """Return the process that nginx works in; it comes up after the command has ended."""
        space = session.execute(self._host, ("readlink", "/proc/self/ns/pid"), 5.0).strip()
        pid_file, deadline_s = self._folder / "nginx.pid", time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            inner = pid_file.read_text("ascii").strip() if pid_file.exists() else ""
            if master := _outer_pid(space, inner):
                # Its only child; without a cache nginx has no other processes.
                children = Path(f"/proc/{master}/task/{master}/children").read_text("ascii")
                if children:
                    return int(children)
            time.sleep(POLL_S)
        raise BackendError(f"nginx did not start: {(self._folder / 'errors').read_text()}")

    def cpu_ns(self) -> int:
        """Return the time that nginx's worker has used a processor."""
        return int(Path(f"/proc/{self._worker}/schedstat").read_text("ascii").split()[0])

    def close(self) -> None:
        """End the emulator and nginx with it, and remove nginx's quota."""
        try:
            super().close()
        finally:
            if hasattr(self, "_folder"):
                shutil.rmtree(self._folder, ignore_errors=True)
            if hasattr(self, "_quota"):
                self._quota.close()


def _outer_pid(space: str, inner: str) -> int:
    """Return our number of the process that a space of numbers calls `inner`; 0 for none."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "ns" / "pid") != space:
                continue
            [numbers] = (
                line
                for line in (folder / "status").read_text().splitlines()
                if line.startswith("NSpid:")
            )
        except OSError:
            # It has ended meanwhile.
            continue
        if numbers.split()[-1] == inner:
            return int(folder.name)
    return 0
