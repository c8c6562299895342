"""What the tables of switches that are muxes hold; no more than they have room for, at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dcgym.config import check_int
from dcgym.errors import DcgymError

__all__ = ["Budgets", "Slots", "SwitchTables", "TableFullError", "make_slots", "only", "without"]

Slots = tuple[int, ...]
"""Host number of the server of each entry of a VIP's block: flow hash, scaled, is the index."""


class TableFullError(DcgymError):
    """A switch has no room for a VIP."""


class Writer(Protocol):
    """What writes single entries of all switches: `dcgym.native._native.Hmux`."""

    def set_block(self, switch_id: int, vip: int, first_entry: int, n_entries: int) -> None:
        """Make a switch the mux of a VIP."""

    def set_local(
        self, switch_id: int, vip: int, first_entry: int, n_entries: int, number: int
    ) -> None:
        """Make a switch the mux of a VIP for its own hosts, and route it to a number for others."""

    def set_route(self, switch_id: int, vip: int, number: int) -> None:
        """Route a VIP to a number, or leave it to the prefix."""

    def set_entry(self, switch_id: int, index: int, tunnel: int) -> None:
        """Let an equal-cost entry lead into a tunnel."""

    def set_tunnel(self, switch_id: int, index: int, host_number: int) -> None:
        """Let a tunnel end at a host."""

    def wait_for_readers(self) -> None:
        """Wait until no packet follows what was set before."""


@dataclass(frozen=True)
class Budgets:
    """Entries that a switch has for VIPs; the defaults are those of Duet's switches.

    Attributes:
        host_entries: Routes of VIPs; every VIP on a switch takes one in every switch.
        ecmp_entries: Equal-cost entries.
        tunnel_entries: Tunnels.
    """

    host_entries: int = 16_384
    ecmp_entries: int = 4_096
    tunnel_entries: int = 512

    def __post_init__(self) -> None:
        """Check the numbers; an entry of the data plane has 16 bits."""
        check_int("host_entries", self.host_entries, 1)
        check_int("ecmp_entries", self.ecmp_entries, 1, 65_535)
        check_int("tunnel_entries", self.tunnel_entries, 1, 65_535)


def make_slots(dips: Sequence[int], entries: Sequence[int] | None = None) -> Slots:
    """Return a block: in turn an entry of each server that has not had all of its own.

    Args:
        dips: Host numbers of the servers.
        entries: Entries of each, one if None. The more all have, the more evenly the flows of one
            spread once it goes; unequal ones are weights (WCMP).
    """
    each = [1] * len(dips) if entries is None else entries
    return tuple(
        dip for turn in range(max(each)) for dip, n in zip(dips, each, strict=True) if n > turn
    )


def without(slots: Slots, dip: int, weights: Mapping[int, int] | None = None) -> Slots:
    """Return a block without a server: only its entries change (resilient hashing).

    They go to the servers that have the fewest for their weight, in the order of the block.

    Args:
        slots: The block.
        dip: Host number of the server.
        weights: Of every server; all weigh the same if None.

    Raises:
        ValueError: It is the last one, or none of the block's.
    """
    counts = Counter(slots)
    if dip not in counts or len(counts) == 1:
        raise ValueError(f"host {dip} cannot leave the servers {sorted(counts)}")
    del counts[dip]
    changed = list(slots)
    for index, owner in enumerate(slots):
        if owner == dip:
            heir = min(counts, key=lambda one: counts[one] / (weights[one] if weights else 1))
            counts[heir] += 1
            changed[index] = heir
    return tuple(changed)


def only(slots: Slots, dips: Collection[int], weights: Mapping[int, int] | None = None) -> Slots:
    """Return a block of some of its servers, `without` the others one after the other.

    Args:
        slots: The block.
        dips: Host numbers of the servers that stay, one at least.
        weights: Of every server; all weigh the same if None.
    """
    for dip in sorted(set(slots) - set(dips)):
        slots = without(slots, dip, weights)
    return slots


@dataclass
class _Block:
    first: int
    slots: Slots
    tunnels: dict[int, int]


@dataclass
class SwitchTables:
    """Equal-cost entries and tunnels of one switch.

    Attributes:
        switch_id: Number of the switch.
        budgets: What it has room for.
        writer: The data plane.
    """

    switch_id: int
    budgets: Budgets
    writer: Writer
    _blocks: dict[int, _Block] = field(default_factory=dict)

    @property
    def ecmp_used(self) -> int:
        """Equal-cost entries in use."""
        return sum(len(block.slots) for block in self._blocks.values())

    @property
    def tunnels_used(self) -> int:
        """Tunnels in use."""
        return sum(len(block.tunnels) for block in self._blocks.values())

    def holds(self, vip: int) -> bool:
        """Tell whether the switch has a VIP's block."""
        return vip in self._blocks

    def has_room(self, slots: Slots) -> bool:
        """Tell whether a block and its tunnels would fit."""
        free = self.budgets.tunnel_entries - self.tunnels_used
        return len(set(slots)) <= free and self._first_fit(len(slots)) is not None

    def install(self, vip: int, slots: Slots, number: int | None = None) -> None:
        """Write a VIP's tunnels, then its block, then its entry: packets find all or nothing.

        Args:
            vip: The VIP.
            slots: Its block.
            number: Of a local mapping what other packets are routed to, 0 for the prefix; None for
                a block that serves all packets.

        Raises:
            TableFullError: There is no room; nothing was written.
        """
        first = self._first_fit(len(slots))
        if first is None or not self.has_room(slots):
            raise TableFullError(
                f"switch {self.switch_id} has no room for VIP {vip}: {len(slots)} equal-cost "
                f"entries and {len(set(slots))} tunnels"
            )
        taken = {index for block in self._blocks.values() for index in block.tunnels.values()}
        free = (index for index in range(self.budgets.tunnel_entries) if index not in taken)
        tunnels = dict(zip(sorted(set(slots)), free, strict=False))
        for dip, index in tunnels.items():
            self.writer.set_tunnel(self.switch_id, index, dip)
        for offset, dip in enumerate(slots):
            self.writer.set_entry(self.switch_id, first + offset, tunnels[dip])
        self._blocks[vip] = _Block(first, slots, tunnels)
        if number is None:
            self.writer.set_block(self.switch_id, vip, first, len(slots))
        else:
            self.writer.set_local(self.switch_id, vip, first, len(slots), number)

    def reroute(self, vip: int, number: int) -> None:
        """Route a VIP of a local mapping elsewhere, for the packets that it does not serve.

        Args:
            vip: The VIP.
            number: What they are routed to; 0 for the prefix of all VIPs.
        """
        block = self._blocks[vip]
        self.writer.set_local(self.switch_id, vip, block.first, len(block.slots), number)

    def uninstall(self, vip: int, number: int = 0) -> None:
        """Route a VIP elsewhere, and free its entries once no packet is reading them.

        Args:
            vip: The VIP.
            number: What its packets are routed to from now on; 0 for the prefix of all VIPs.
        """
        self.writer.set_route(self.switch_id, vip, number)
        self.writer.wait_for_readers()
        del self._blocks[vip]

    def change(self, vip: int, slots: Slots) -> None:
        """Give entries of servers that leave to servers that stay; free the leavers' tunnels.

        Each entry changes in one store, and those that do not change are not written.
        """
        block = self._blocks[vip]
        for offset, (old, new) in enumerate(zip(block.slots, slots, strict=True)):
            if old != new:
                self.writer.set_entry(self.switch_id, block.first + offset, block.tunnels[new])
        self.writer.wait_for_readers()
        block.slots = slots
        block.tunnels = {dip: block.tunnels[dip] for dip in sorted(set(slots))}

    def _first_fit(self, length: int) -> int | None:
        at = 0
        for block in sorted(self._blocks.values(), key=lambda one: one.first):
            if block.first - at >= length:
                return at
            at = block.first + len(block.slots)
        return at if self.budgets.ecmp_entries - at >= length else None
