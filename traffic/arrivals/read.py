"""Arrivals as users write them. Who imports this knows every name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dcgym.config import read_numbers
from dcgym.errors import ConfigError
from dcgym.traffic.arrivals import modulated as _modulated  # noqa: F401, adds its names
from dcgym.traffic.arrivals.gaps import ARRIVALS, read_process
from dcgym.traffic.arrivals.process import Process
from dcgym.traffic.sizes.distributions import Distribution
from dcgym.units import as_python

__all__ = ["ARRIVALS", "Arrivals", "read_process"]


@dataclass(frozen=True)
class Arrivals:
    """When flows arrive, as a configuration says it.

    Attributes:
        name: A name of `ARRIVALS`.
        options: Its options, pairs of key and value.
        process: What they mean.
    """

    name: str = "poisson"
    options: tuple[tuple[str, object], ...] = ()
    process: Process = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Read the options."""
        read_numbers(self)
        object.__setattr__(self, "process", read_process(self.to_dict(), "scenario.arrivals"))

    def __hash__(self) -> int:
        """Hash the name: options may hold mappings."""
        return hash(self.name)

    @classmethod
    def of(cls, spec: object) -> Arrivals:
        """Return the arrivals that a configuration holds.

        Args:
            spec: A name, a mapping of ``name`` and options, or arrivals.

        Raises:
            ConfigError: There is no such name, or an option is not allowed.
        """
        if isinstance(spec, Arrivals):
            return spec
        given = {"name": spec} if isinstance(spec, str) else spec
        if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
            allowed = f"one of {', '.join(ARRIVALS)}, or a mapping with that name"
            raise ConfigError("scenario.arrivals", spec, allowed)
        options = tuple((key, _plain(value)) for key, value in given.items() if key != "name")
        return cls(given["name"], options)

    def put_off(self, by_ns: int, rate_per_s: float) -> Arrivals:
        """Return the arrivals for a clock that begins so much earlier.

        Rates that follow a period, and recordings, are then at their time 0; until then they go on
        as they did before it.

        Args:
            by_ns: The earlier time.
            rate_per_s: Arrivals a second.
        """
        process, told = self.process, {}
        modulation, recording = process.modulation, process.recording
        if modulation is not None and not modulation.is_markov and modulation.phase is not None:
            phase = (modulation.phase - by_ns / sum(modulation.times_ns)) % 1
            process = replace(process, modulation=replace(modulation, phase=phase))
            told["phase"] = phase
        if recording is not None and recording.start is not None:
            rounds = by_ns * 1e-9 * rate_per_s / len(recording.gaps)
            start = (recording.start - rounds) % 1
            process = replace(process, recording=replace(recording, start=start))
            told["start"] = start
        if not told:
            return self
        made, known = copy.copy(self), ARRIVALS.find(self.name).options
        options = dict(self.options) | {key: told[key] for key in told if key in known}
        # Nothing is read again: a recording may be a file.
        object.__setattr__(made, "options", tuple(options.items()))
        object.__setattr__(made, "process", process)
        return made

    def to_dict(self) -> dict[str, object]:
        """Return the arrivals as plain data; `of` reads it back."""
        return {"name": self.name, **dict(self.options)}


def _plain(value: object) -> object:
    if isinstance(value, Distribution):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    value = as_python(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value
