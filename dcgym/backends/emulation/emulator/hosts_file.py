"""The hosts' names, where programs look for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dcgym.backends.emulation.emulator.run import run

__all__ = ["name_hosts"]

HOSTS_FILE = Path("/etc/hosts")
OWN_FILE = Path("/run/hosts")


def name_hosts(addresses: Mapping[str, str]) -> None:
    """Put the emulated hosts into this mount namespace's hosts(5), before the machine's own.

    Programs that ask for the name of an address, as Python's ``http.server`` does when it starts,
    would otherwise wait for name servers that no emulated host reaches.

    Args:
        addresses: Address of each host by name.

    Raises:
        CommandError: The file cannot be mounted.
    """
    if not HOSTS_FILE.exists():
        return
    rows = [f"{ip}\t{name}\n" for name, ip in addresses.items()]
    # The emulator has a /run of its own (tmpfs), and all its mounts are private.
    OWN_FILE.write_text("".join(rows) + HOSTS_FILE.read_text("utf-8", "replace"), "utf-8")
    run("mount", "--bind", str(OWN_FILE), str(HOSTS_FILE))
