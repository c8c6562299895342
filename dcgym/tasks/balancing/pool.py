"""The pool of a scenario: its servers, the balancers in front of them, and virtual addresses."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_name, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.fields import (
    LONGEST_NS,
    Plain,
    build,
    check_items,
    check_unique,
    parse_fields,
    parse_rows,
    plain_fields,
)
from dcgym.tasks.balancing.servers import MAX_SERVERS, ServerGroup
from dcgym.tasks.balancing.weights import MAX_WEIGHT_RATIO

__all__ = ["ServerPool", "Vip"]

MAX_BALANCERS = 64
MAX_VIPS = 64


@dataclass(frozen=True)
class Vip:
    """A virtual address that clients connect to.

    Attributes:
        name: Name, unique in the pool.
        groups: Names of the groups whose servers answer; none for all.
        applications: Names of the applications that are asked for here; none for those that no
            other address names.
    """

    name: str = "vip"
    groups: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_name("vip.name", self.name)
        for field in ("groups", "applications"):
            names = check_items(f"vip.{field}", getattr(self, field), str, may_be_empty=True)
            object.__setattr__(self, field, names)

    @classmethod
    def from_dict(cls, data: Plain) -> Vip:
        """Build a virtual address from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        return build(cls, parse_fields(data, cls, "vip"))


@dataclass(frozen=True)
class ServerPool:
    """Servers and the balancers in front of them.

    Servers are numbered from 0 through the groups in their order. All have resources of the same
    names in the same order.

    Attributes:
        groups: The servers.
        balancers: Number of balancers that the edge spreads flows over.
        backlog: Flows that may wait for a server's first resource; one more is rejected.
        idle_timeout_ns: How long a real server waits for a request, for the next one of the same
            connection, and for the client to take the answer. Flows of the twin are never idle.
        vips: The virtual addresses. Each balancer has rule, weights and counters of its own for
            each of them: a front end.
    """

    groups: tuple[ServerGroup, ...]
    balancers: int = 2
    backlog: int = 64
    idle_timeout_ns: int = 60 * 10**9
    vips: tuple[Vip, ...] = (Vip(),)

    def __post_init__(self) -> None:
        """Freeze the sequences and check every field."""
        read_numbers(self)
        groups = check_items("scenario.groups", self.groups, ServerGroup)
        vips = check_items("scenario.vips", self.vips, Vip)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "vips", vips)
        check_unique("scenario.groups", [group.name for group in groups])
        check_unique("scenario.vips", [vip.name for vip in vips])
        if self.n_servers > MAX_SERVERS:
            raise ConfigError("scenario.groups", self.n_servers, f"at most {MAX_SERVERS} servers")
        if not any(group.present for group in groups):
            raise ConfigError("group.present", False, "True for at least one group")
        weights = [group.configured_weight for group in groups]
        if max(weights) > MAX_WEIGHT_RATIO * min(weights):
            allowed = f"at most {MAX_WEIGHT_RATIO} times the smallest, {min(weights)}"
            raise ConfigError("group.weight", max(weights), allowed)
        for group in groups:
            names = tuple(resource.name for resource in group.resources)
            if names != self.resources:
                allowed = f"those of the first group, in its order: {list(self.resources)}"
                raise ConfigError("group.resources", list(names), allowed)
        check_int("scenario.vips", len(vips), 1, MAX_VIPS)
        self._check_members()
        check_int("scenario.balancers", self.balancers, 1, MAX_BALANCERS)
        check_int("scenario.backlog", self.backlog, 0, 1_000_000)
        check_int("scenario.idle_timeout_ns", self.idle_timeout_ns, 1, LONGEST_NS)

    def _check_members(self) -> None:
        """Refuse an address that nobody answers, and a group without one."""
        names = [group.name for group in self.groups]
        present = np.array([group.present for group in self.server_groups])
        for vip, members in zip(self.vips, self.members, strict=True):
            for name in vip.groups:
                check_in("vip.groups", name, names)
            if not (members & present).any():
                allowed = f"groups of which {vip.name} has a server that is present at the start"
                raise ConfigError("vip.groups", list(vip.groups), allowed)
        for group in self.groups:
            if not any(group.name in (vip.groups or names) for vip in self.vips):
                raise ConfigError("vip.groups", None, f"{group.name} at one of the addresses")

    @property
    def members(self) -> npt.NDArray[np.bool_]:
        """Which servers answer each virtual address, (V, N)."""
        names = [group.name for group in self.server_groups]
        return np.array(
            [[not vip.groups or name in vip.groups for name in names] for vip in self.vips]
        )

    @property
    def n_frontends(self) -> int:
        """Number of front ends: each virtual address at each balancer, balancer by balancer."""
        return self.balancers * len(self.vips)

    @property
    def n_servers(self) -> int:
        """Number of servers, those not yet present included."""
        return sum(group.count for group in self.groups)

    @property
    def server_groups(self) -> tuple[ServerGroup, ...]:
        """The group of each server, in the order of their numbers."""
        return tuple(group for group in self.groups for _ in range(group.count))

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources that each server has, in their order."""
        return tuple(resource.name for resource in self.groups[0].resources)

    def capacity(self, resource: str, vip: Vip | None = None) -> float:
        """Return the seconds of demand a second of the servers present at the start.

        Args:
            resource: Name of the resource.
            vip: Whose servers; None for all.

        Raises:
            ConfigError: There is no such resource.
        """
        names = () if vip is None else vip.groups
        present = [g for g in self.groups if g.present and (not names or g.name in names)]
        return sum(
            group.count * group.resource(resource).workers * group.resource(resource).speed
            for group in present
        )

    def to_dict(self) -> dict[str, object]:
        """Return the pool as plain data; `from_dict` reads it back."""
        return plain_fields(asdict(self))

    @classmethod
    def from_dict(cls, data: Plain) -> ServerPool:
        """Build a pool from plain data.

        Args:
            data: The fields; ``groups`` is a list of what `ServerGroup.from_dict` takes.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        content = parse_fields(data, cls, "scenario")
        rows = parse_rows(content, "groups", "scenario")
        content["groups"] = tuple(ServerGroup.from_dict(row) for row in rows)
        if "vips" in content:
            vips = parse_rows(content, "vips", "scenario")
            content["vips"] = tuple(Vip.from_dict(row) for row in vips)
        return build(cls, content)
