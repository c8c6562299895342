"""SplitMix64 (Steele, Lea, Flood 2014), as `include/splitmix.h` has it."""

from __future__ import annotations

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """Return the output function of a state."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def absorb(state: int, word: int) -> int:
    """Return the hash of a state and one more word."""
    return mix((state ^ word) + GOLDEN & WORD)


def stream_seed(seed: int, purpose: str, number: int) -> int:
    """Return where one of the twin's streams begins (`twin/core/random.hpp`)."""
    return mix(mix(seed + GOLDEN & WORD) ^ mix((ord(purpose) << 56) + number))


class Splitmix:
    """A stream of draws of 64 bits."""

    def __init__(self, state: int) -> None:
        self.state = state

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & WORD
        return mix(self.state)

    def below(self, n: int) -> int:
        """Return 0 to n - 1, by the upper half of a draw."""
        return (self.next() >> 32) * n >> 32
