"""Plans of real applications: plain commands that hosts run, in the place of flows."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dcgym.config import check_in, check_int, check_keys, check_list, read_numbers
from dcgym.errors import ConfigError, suggest
from dcgym.traffic.plans.options import Spec
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import LARGEST
from dcgym.units import NS_PER_S, parse_duration, read_number
from dcgym.writing import prepare_folder, real_path

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["APPS", "App", "AppOrder", "AppPlan", "read_apps"]

APPS = "apps"
"""What the generator that runs applications is called, and the key of their spec."""

MOST_APPS = 1024
_FIELDS = ("command", "start", "duration", "env", "background")


@dataclass(frozen=True)
class App:
    """A command that a host runs.

    Attributes:
        host: Name of the host.
        argv: The program and its arguments; no shell stands between.
        start_ns: Start, from the beginning of the episode.
        duration_ns: How long it is expected to run: it is ended when that is over. None for no
            limit.
        env: Variables that it finds in its environment besides those of this process.
        background: Whether the episode may end without it, as a server's may.
    """

    host: str
    argv: tuple[str, ...]
    start_ns: int = 0
    duration_ns: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    background: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        if not self.argv or not all(_is_word(word) for word in self.argv) or not self.argv[0]:
            raise ConfigError("app.argv", self.argv, "a program and its arguments, as texts")
        check_int("app.start_ns", self.start_ns, 0, LARGEST)
        if self.duration_ns is not None:
            check_int("app.duration_ns", self.duration_ns, 1, LARGEST)
        for name, value in self.env:
            if not _is_word(name) or not name or "=" in name or not _is_word(value):
                raise ConfigError("app.env", {name: value}, "names without '=', and texts")
        check_in("app.background", self.background, (True, False))

    @property
    def command(self) -> str:
        """The command line as one would type it."""
        return shlex.join(self.argv)


class AppOrder(TypedDict):
    """An application as the generator reads it."""

    host: int
    argv: tuple[str, ...]
    start_ns: int
    duration_ns: int | None
    env: dict[str, str]
    background: bool
    output: str | None


class AppPlan(Plan):
    """A plan without flows, of applications.

    Attributes:
        apps: The applications, by host and in the order in which they were given.
        output: Folder of what they print, or None.
    """

    def __init__(
        self, name: str, seed: int, apps: Iterable[App], output: str | Path | None = None
    ) -> None:
        """Gather applications into a plan.

        Args:
            name: What to call it.
            seed: Handed to every application as DCGYM_SEED.
            apps: The applications.
            output: Folder for what they print; None keeps only the end of it, for the records.

        Raises:
            ConfigError: There are none, or too many, or the folder is none.
        """
        super().__init__(name, seed)
        self.apps = tuple(apps)
        self.output = None if output is None else real_path(output, "traffic.output")
        if not 1 <= len(self.apps) <= MOST_APPS:
            raise ConfigError("traffic.apps", len(self.apps), f"1 to {MOST_APPS} applications")

    def __eq__(self, other: object) -> bool:
        """Compare name, seed and applications."""
        if not isinstance(other, AppPlan):
            return False
        return (self.name, self.seed, self.apps) == (other.name, other.seed, other.apps)

    def __hash__(self) -> int:
        """Hash name, seed and applications."""
        return hash((self.name, self.seed, self.apps))

    def __repr__(self) -> str:
        """Return name, seed and number of applications."""
        return f"AppPlan({self.name!r}, seed={self.seed}, apps={len(self.apps)})"

    def __getstate__(self) -> dict[str, object]:
        """Pickle the applications too."""
        return {**super().__getstate__(), "apps": self.apps, "output": self.output}

    @property
    def endless(self) -> bool:
        """Whether some application may run for ever."""
        return any(app.duration_ns is None for app in self.apps)

    @property
    def receivers(self) -> frozenset[str]:
        """Names of the hosts that run an application."""
        return frozenset(app.host for app in self.apps)

    def digest(self) -> str:
        """Return the SHA-256 of the applications, in hexadecimal."""
        return hashlib.sha256(json.dumps([asdict(app) for app in self.apps]).encode()).hexdigest()

    def check(self, topology: Topology, where: Callable[[int], str] | None = None) -> AppPlan:
        """Return the plan if each application's host is one of the topology.

        Args:
            topology: The network.
            where: Names a row in error messages.
        """
        for app in self.apps:
            _check_host(app.host, topology)
        return self

    def check_machine(self) -> None:
        """Check that the programs are installed, and make the folder of the output.

        Raises:
            ConfigError: A program is not on the PATH, or the folder cannot be made.
        """
        for app in self.apps:
            program, path = app.argv[0], dict(app.env).get("PATH", os.environ.get("PATH"))
            if shutil.which(program, path=path) is None:
                allowed = "a program that is installed, by its path or on the PATH"
                raise ConfigError(f"traffic.apps.{app.host}", program, allowed)
        if self.output is not None:
            hosts = [f"{n}-{app.host}" for n, app in enumerate(self.apps)]
            names = [f"{host}.{stream}" for host in hosts for stream in ("out", "err")]
            prepare_folder(self.output, "traffic.output", names)

    def to_generator(self, hosts: Sequence[str]) -> bytes:
        """Return the applications as the generator reads them: JSON, hosts by number.

        Args:
            hosts: Names of the generator's hosts, in its order.
        """
        rows: list[AppOrder] = [
            {
                "host": hosts.index(app.host),
                "argv": app.argv,
                "start_ns": app.start_ns,
                "duration_ns": app.duration_ns,
                "env": {**dict(app.env), "DCGYM_HOST": app.host, "DCGYM_SEED": str(self.seed)},
                "background": app.background,
                "output": None if self.output is None else str(self.output / f"{n}-{app.host}"),
            }
            for n, app in enumerate(self.apps)
        ]
        return json.dumps(rows).encode()

    def rows(self) -> list[dict[str, object]]:
        """Return each application as plain data."""
        return [
            {
                "host": app.host,
                "command": app.command,
                "start_s": app.start_ns / NS_PER_S,
                "duration_s": None if app.duration_ns is None else app.duration_ns / NS_PER_S,
                "background": app.background,
            }
            for app in self.apps
        ]

    def to_bytes(self) -> bytes:
        """Refuse: only flows have this form."""
        raise ConfigError("plan", self.name, "a plan of flows")

    def to_dict(self) -> dict[str, object]:
        """Refuse, as `save` does: applications are kept as the mapping that describes them."""
        raise ConfigError("plan", self.name, "a plan of flows; keep applications in a .yaml file")

    def save(self, path: str | Path) -> None:
        """Refuse: the files of plans hold flows.

        Args:
            path: Where to; the suffix decides the format.
        """
        self.to_dict()


def read_apps(spec: Spec, topology: Topology, seed: int) -> AppPlan:
    """Read the applications of a spec.

    Args:
        spec: ``apps``, a mapping of host to a command (a text, split as a shell would, or a list
            of texts), to a mapping with ``command`` and any of ``start``, ``duration``, ``env``,
            ``background``, or to a list of such mappings; ``name``; ``output``, a folder. In a
            command, ``{h1}`` stands for the address of host h1.
        topology: The network.
        seed: Seed of the plan.

    Raises:
        ConfigError: A field holds what is not allowed, or there is no such host.
    """
    check_keys(spec, ("apps", "name", "output"), "traffic")
    output = spec.get("output")
    if not isinstance(output, str | Path | None):
        raise ConfigError("traffic.output", output, "the path of a folder")
    hosts = spec["apps"]
    if not isinstance(hosts, Mapping) or not hosts:
        raise ConfigError("traffic.apps", hosts, "a mapping of host to command")
    apps = []
    for host, value in hosts.items():
        _check_host(host, topology)
        where = f"traffic.apps.{host}"
        if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
            apps += [_read_app(host, p, f"{where}[{n}]", topology) for n, p in enumerate(value)]
        else:
            apps.append(_read_app(host, value, where, topology))
    # The plan checks its name.
    name: str = spec.get("name", APPS)  # type: ignore[assignment]
    return AppPlan(name, seed, apps, output).check(topology)


def _read_app(host: str, value: object, where: str, topology: Topology) -> App:
    if not isinstance(value, Mapping):
        return App(host, _read_command(value, where, topology))
    check_keys(value, _FIELDS, where)
    duration_ns = None
    if value.get("duration") is not None:
        duration_ns = parse_duration(value["duration"], f"{where}.duration")
        if duration_ns == 0:
            raise ConfigError(f"{where}.duration", value["duration"], "a duration above 0")
    return App(
        host,
        _read_command(value.get("command"), f"{where}.command", topology),
        parse_duration(value.get("start", 0), f"{where}.start"),
        duration_ns,
        _read_env(value.get("env", {}), f"{where}.env"),
        check_in(f"{where}.background", value.get("background", False), (True, False)),
    )


def _read_command(value: object, where: str, topology: Topology) -> tuple[str, ...]:
    allowed = "a command: a text, or a list of a program and its arguments"
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise ConfigError(where, value, f"{allowed} ({error})") from None
    parts = check_list(where, value, allowed)
    if not parts or not parts[0]:
        raise ConfigError(where, value, allowed)
    # YAML reads a port as a number.
    words = [w if isinstance(w, str) or read_number(w) is None else str(w) for w in parts]
    for word in words:
        if not _is_word(word):
            raise ConfigError(where, word, allowed)
    return tuple(_with_addresses(word, topology) for word in words)


def _read_env(value: object, where: str) -> tuple[tuple[str, str], ...]:
    allowed = "a mapping of names to texts or numbers"
    if not isinstance(value, Mapping):
        raise ConfigError(where, value, allowed)
    env = []
    for name, entry in value.items():
        is_text = isinstance(entry, str) or read_number(entry) is not None
        if not _is_word(name) or not name or "=" in name or not is_text or "\0" in str(entry):
            raise ConfigError(f"{where}.{name}", entry, allowed)
        env.append((name, str(entry)))
    return tuple(env)


def _with_addresses(word: str, topology: Topology) -> str:
    """Replace host names in braces; other braces belong to the command."""
    for host in topology.hosts:
        if f"{{{host.name}}}" in word:
            word = word.replace(f"{{{host.name}}}", topology.ip(host.name))
    return word


def _check_host(host: object, topology: Topology) -> None:
    names = [known.name for known in topology.hosts]
    if host not in names:
        allowed = f"a host of {topology.name} ({names[0]} .. {names[-1]})"
        raise ConfigError("traffic.apps", host, allowed, suggest(host, names))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
