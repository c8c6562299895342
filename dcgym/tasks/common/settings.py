"""What every environment is told, whatever it decides about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from dcgym.config import check_in, check_int, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.common.nested import replaced

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["INFO_FORMS", "RENDER_MODES", "Duration", "TaskSettings"]

RENDER_MODES = ("rgb_array",)
INFO_FORMS = ("full", "flat", "none")

Duration: TypeAlias = str | int | float
"""Text such as "50ms", or a number of seconds."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Arguments that all environments take; those of one task are a subclass.

    Attributes:
        backend: Name of a backend, or a mapping of ``name`` and the backend's options; a backend,
            or what makes one, which "module:name" may name.
        interval: Control interval; None where steps have no fixed length.
        render_mode: None or "rgb_array".
        max_steps: Steps until truncation, which also bounds what is drawn and started; None for
            no limit.
        info: Form of the infos: "full", nested; "flat", one level of floats; or "none".
        randomise: Distribution of each field that is drawn anew at each reset, by its path
            (`dcgym.tasks.common.draws`); None for none.
    """

    drawn_fields: ClassVar[tuple[str, ...]] = ()
    """Arguments whose fields `randomise` may name."""

    backend: object
    interval: Duration | None
    render_mode: str | None = None
    max_steps: int | None = None
    info: str = "full"
    randomise: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        """Check the fields that all tasks have."""
        read_numbers(self)
        check_in("render_mode", self.render_mode, (None, *RENDER_MODES))
        check_in("info", self.info, INFO_FORMS)
        if self.max_steps is not None:
            check_int("max_steps", self.max_steps, 1)

    @property
    def has_end(self) -> bool:
        """Whether every episode ends; tasks that end by themselves say so."""
        return self.max_steps is not None

    def drawn(self, values: Mapping[str, object]) -> Self:
        """Return the settings of a draw, which draw nothing more.

        Args:
            values: Values of the fields that `randomise` names, by their paths.

        Raises:
            ConfigError: A field is not there, or its value is not allowed.
        """
        changed: dict[str, Any] = {}
        for path, value in values.items():
            name, *options = path.split(".")
            current = changed.get(name, getattr(self, name))
            changed[name] = replaced("randomise", current, name, options, value)
        return replace(self, randomise=None, **changed)

    def mean_interval(self) -> Duration:
        """Return the length of a step, or its mean where steps have no fixed length.

        Raises:
            ConfigError: Nothing is known of it.
        """
        if self.interval is None:
            raise ConfigError("interval", None, "a duration, such as '50ms'")
        return self.interval
