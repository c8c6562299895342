"""Moves VIPs between switches and software muxes, so that no flow changes its server.

Make before break: a switch has a VIP's whole block before any route leads to it, and loses it only
after all routes lead elsewhere. What does not fit its new switch yet is withdrawn first, and the
software muxes serve it meanwhile (Duet, section 5.2).

A switch of a rack may have a local mapping too (Rubik, USENIX ATC 2015): it serves a VIP's packets
that its own hosts send, by servers of its rack. It announces nothing. What no local mapping serves
is the residual mapping's, which is anywhere else.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from dcgym.backends.emulation.emulator.muxes.tables import (
    Budgets,
    Slots,
    SwitchTables,
    Writer,
    only,
    without,
)

__all__ = ["SOFTWARE", "MuxController", "SoftwareMuxes"]

SOFTWARE = -1
"""In the place of a switch: the software muxes serve the VIP."""


class SoftwareMuxes(Protocol):
    """The muxes that know all VIPs."""

    def set_slots(self, vip: int, slots: Slots) -> None:
        """Take over a VIP's block."""


class MuxController:
    """Where every VIP is served, and the order of what changes.

    Args:
        writer: The switches' data plane.
        software: The software muxes.
        numbers: The number that each switch is routed to by, in the order of the switches.
        distances: By switch, how far from it each switch is; absent: cut off.
        blocks: Servers of every VIP, as host numbers.
        budgets: Room of each switch.
        convergence_s: From an announcement or withdrawal until other switches follow it.
    """

    def __init__(
        self,
        writer: Writer,
        software: SoftwareMuxes,
        numbers: Sequence[int],
        distances: Mapping[int, Mapping[int, int]],
        blocks: Sequence[Slots],
        budgets: Budgets | None = None,
        convergence_s: float = 0.0,
    ) -> None:
        self._writer, self._software = writer, software
        self._numbers, self._distances = tuple(numbers), distances
        self.budgets = budgets or Budgets()
        self.convergence_s = convergence_s
        self.blocks = list(blocks)
        self.places = [SOFTWARE] * len(self.blocks)
        # All servers of each VIP; and its local mappings by switch.
        self._whole = list(self.blocks)
        self._weights = [Counter(slots) for slots in self.blocks]
        self.local: list[dict[int, Slots]] = [{} for _ in self.blocks]
        self.tables = {
            switch: SwitchTables(switch, self.budgets, writer) for switch in self._distances
        }
        self._dead: set[int] = set()
        for vip, slots in enumerate(self.blocks):
            software.set_slots(vip, slots)

    def dips(self, vip: int) -> set[int]:
        """Return the host numbers of a VIP's servers, whatever mapping they are in.

        Args:
            vip: The VIP.
        """
        return set(self._whole[vip])

    def host_entries(self, switch: int) -> int:
        """Return how many entries for VIPs a switch has: announced ones, and its own.

        Args:
            switch: The switch.
        """
        announced = [place != SOFTWARE for place in self.places]
        return sum(one or switch in own for one, own in zip(announced, self.local, strict=True))

    def assign(self, places: Mapping[int, int]) -> None:
        """Move VIPs to new places in two waves: withdrawals, then announcements.

        A VIP goes directly from switch to switch where the new one has room. One that finds none
        in the second wave either stays with the software muxes.

        Args:
            places: Number of the switch by VIP, or `SOFTWARE`.
        """
        moving = {vip: place for vip, place in places.items() if place != self.places[vip]}
        self._withdraw([vip for vip, place in moving.items() if not self._has_room(vip, place)])
        direct = {vip: place for vip, place in moving.items() if place != SOFTWARE}
        self._announce(direct)

    def _has_room(self, vip: int, switch: int) -> bool:
        if switch == SOFTWARE:
            return False
        # A switch with a local mapping has an entry for the VIP already.
        others = [one for one in self.tables if one not in self.local[vip]]
        most = max(map(self.host_entries, others), default=0)
        fits = self.places[vip] != SOFTWARE or most < self.budgets.host_entries
        usable = switch not in self._dead and switch not in self.local[vip]
        return usable and fits and self.tables[switch].has_room(self.blocks[vip])

    def _announce(self, places: Mapping[int, int]) -> None:
        old_places = {}
        without_room = []
        for vip, switch in places.items():
            if not self._has_room(vip, switch):
                without_room.append(vip)
                continue
            self.tables[switch].install(vip, self.blocks[vip])
            old_places[vip], self.places[vip] = self.places[vip], switch
        self._withdraw(without_room)
        if old_places:
            self.converge()
        for vip, old in old_places.items():
            self._lead(vip, old)

    def _lead(self, vip: int, old: int) -> None:
        """Let all switches follow a VIP to its new place, and free its old one."""
        switch = self.places[vip]
        # Nearest first: who follows the new route sends to switches that follow it too.
        for other in self._nearest(switch):
            if other not in (old, switch):
                self._route(other, vip, self._numbers[switch])
        if old != SOFTWARE:
            self.tables[old].uninstall(vip, self._numbers[switch])

    def _withdraw(self, vips: Sequence[int]) -> None:
        leaving = [vip for vip in vips if self.places[vip] != SOFTWARE]
        if leaving:
            self.converge()
        for vip in leaving:
            self._fall_back(vip)

    def _fall_back(self, vip: int) -> None:
        """Leave a VIP to the software muxes: farthest first, so that nobody sends in a circle."""
        switch = self.places[vip]
        for other in reversed(self._nearest(switch)):
            if other != switch:
                self._route(other, vip, 0)
        self.tables[switch].uninstall(vip)
        self.places[vip] = SOFTWARE

    def _route(self, switch: int, vip: int, number: int) -> None:
        """Let a switch send to a number what it does not serve itself."""
        if switch in self.local[vip]:
            self.tables[switch].reroute(vip, number)
        else:
            self._writer.set_route(switch, vip, number)

    def _number(self, vip: int) -> int:
        """Return what the VIP is routed to; 0 for the prefix."""
        place = self.places[vip]
        return 0 if place == SOFTWARE else self._numbers[place]

    def localise(self, vip: int, racks: Mapping[int, Sequence[int]]) -> None:
        """Give a VIP local mappings instead of those that it has.

        Flows of a rack that another rack's server has had get one of the rack. Servers of local
        mappings leave the residual mapping, and flows of others that they have had move; but where
        no server would be left, it keeps all of them. A mapping that finds no room is not made.

        Args:
            vip: The VIP.
            racks: Host numbers of the servers by switch, none twice. The switch that has the
                residual mapping is not among them.
        """
        wanted = {switch: self._only(vip, dips) for switch, dips in racks.items()}
        own = self.local[vip]
        for switch in [switch for switch, slots in own.items() if wanted.get(switch) != slots]:
            self._globalise(vip, switch)
        for switch, slots in wanted.items():
            if switch in own:
                continue
            is_known = self.places[vip] != SOFTWARE
            fits = is_known or self.host_entries(switch) < self.budgets.host_entries
            if fits and switch not in self._dead and self.tables[switch].has_room(slots):
                self.tables[switch].install(vip, slots, self._number(vip))
                own[switch] = slots
        self._settle(vip)

    def _only(self, vip: int, dips: Collection[int]) -> Slots:
        """Return a VIP's block of some of its servers."""
        return only(self._whole[vip], dips, self._weights[vip])

    def _globalise(self, vip: int, switch: int) -> None:
        """Take a local mapping away: the rack's packets go to the residual one."""
        del self.local[vip][switch]
        self.tables[switch].uninstall(vip, self._number(vip))

    def _settle(self, vip: int) -> None:
        """Give the residual mapping the servers that no local one has."""
        whole, has = self._whole[vip], set(self.blocks[vip])
        wanted = set(whole).difference(*self.local[vip].values()) or set(whole)
        if wanted <= has:
            for dip in sorted(has - wanted):
                self._leave(vip, dip)
            return
        place = self.places[vip]
        self.replace_block(vip, self._only(vip, wanted))
        self.assign({vip: place})

    def remove_dip(self, vip: int, dip: int) -> None:
        """Take a server from a VIP; only its own flows move.

        Args:
            vip: The VIP.
            dip: Host number of the server.

        Raises:
            ValueError: It is the VIP's last server, or none of its.
        """
        self._whole[vip] = without(self._whole[vip], dip, self._weights[vip])
        for switch, slots in list(self.local[vip].items()):
            if set(slots) == {dip}:
                self._globalise(vip, switch)
            elif dip in slots:
                self.local[vip][switch] = without(slots, dip, self._weights[vip])
                self.tables[switch].change(vip, self.local[vip][switch])
        self._settle(vip)

    def _leave(self, vip: int, dip: int) -> None:
        """Take a server from the residual mapping."""
        slots = without(self.blocks[vip], dip, self._weights[vip])
        place = self.places[vip]
        if place != SOFTWARE:
            self.tables[place].change(vip, slots)
        self._software.set_slots(vip, slots)
        self.blocks[vip] = slots

    def replace_block(self, vip: int, slots: Slots) -> None:
        """Change a VIP's servers as addition has to: at the software muxes, which know its flows.

        Args:
            vip: The VIP.
            slots: Its new block.
        """
        self._withdraw([vip])
        self._software.set_slots(vip, slots)
        self.blocks[vip] = slots

    def lose_switch(self, switch: int) -> None:
        """Withdraw at once what a switch announced that has died: the prefix takes over."""
        self._dead.add(switch)
        for vip in [vip for vip, place in enumerate(self.places) if place == switch]:
            self._fall_back(vip)

    def converge(self) -> None:
        """Wait until other switches follow what was announced or withdrawn."""
        if self.convergence_s:
            time.sleep(self.convergence_s)

    def _nearest(self, switch: int) -> list[int]:
        distances = self._distances[switch]
        return sorted(self._distances, key=lambda other: (distances.get(other, 1 << 30), other))
