"""Where the event ``moving-load`` puts its processes: the same servers in twin and emulation."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["servers_visited"]

_WORD = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15  # of SplitMix64 (`splitmix.h`)
_STREAM = 8  # `moving_stream` of the twin's simulation.hpp


def servers_visited(seed: int, number: int, servers: int) -> Iterator[int]:
    """Yield the position of the server that a load is on, from period to period.

    Args:
        seed: Seed of the episode, 0 to 2**64 - 1.
        number: Number of the load among those of the scenario, in the order of their events.
        servers: Servers that it moves between; it stays where there is one.
    """
    state = _mix(_mix(seed + _GAMMA) ^ _mix((_STREAM << 56) + number))
    state, at = _below(state, servers)
    yield at
    while True:
        if servers > 1:
            state, found = _below(state, servers - 1)
            at = found + (found >= at)
        yield at


def _below(state: int, n: int) -> tuple[int, int]:
    """Return the next state of the generator, and a draw from 0 to n - 1 (`dcgym_below`)."""
    state = (state + _GAMMA) & _WORD
    return state, ((_mix(state) >> 32) * n) >> 32


def _mix(word: int) -> int:
    """Return the output function of SplitMix64 (`dcgym_mix`)."""
    word &= _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)
