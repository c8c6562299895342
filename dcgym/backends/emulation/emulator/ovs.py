"""A private Open vSwitch instance inside the emulator's namespaces."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from dcgym.backends.emulation.emulator.run import run
from dcgym.errors import BackendError, FeatureNotSupported

__all__ = ["start_ovs"]

START_DEADLINE_S = 10.0
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


def start_ovs() -> None:
    """Start database and switch daemon; /run is the emulator's own, so the default paths are too.

    Raises:
        FeatureNotSupported: Open vSwitch is not installed.
        BackendError: A daemon did not come up.
    """
    for tool in ("ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovsdb-tool"):
        if shutil.which(tool) is None:
            raise FeatureNotSupported(tool, "apt-get install openvswitch-switch")
    folder = Path("/run/openvswitch")
    folder.mkdir(parents=True, exist_ok=True)
    database, sock = folder / "conf.db", folder / "db.sock"
    run("ovsdb-tool", "create", str(database), str(SCHEMA))
    log = (folder / "ovs.log").open("ab")
    # Children of the emulator's first process: they end with it.
    subprocess.Popen(
        ["ovsdb-server", str(database), f"--remote=punix:{sock}"], stdout=log, stderr=log
    )
    _wait_for(sock)
    run("ovs-vsctl", "--no-wait", "init")
    subprocess.Popen(["ovs-vswitchd", f"unix:{sock}"], stdout=log, stderr=log)
    log.close()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise BackendError(f"ovsdb-server made no {path.name} within {START_DEADLINE_S} s")
        time.sleep(0.005)
