"""States of copies: dataclasses of arrays whose first axis is the copy."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["where"]

State = TypeVar("State")


def where(mask: npt.NDArray[np.bool_], chosen: State, other: State | None) -> State:
    """Return one state of the copies in a mask, and another one of the rest.

    Args:
        mask: Of the copies, (E,).
        chosen: State of those in the mask; of dataclasses, arrays, and None where one has nothing.
        other: State of the others; None where there is none, and all rows are the first one's.
    """
    made: State = chosen if other is None else _where(mask, chosen, other)
    return made


def _where(mask: npt.NDArray[np.bool_], chosen: Any, other: Any) -> Any:
    if isinstance(chosen, np.ndarray):
        return np.where(mask.reshape(-1, *[1] * (chosen.ndim - 1)), chosen, other)
    if not is_dataclass(chosen) or isinstance(chosen, type):
        return chosen
    names = [field.name for field in fields(chosen)]
    return type(chosen)(
        **{name: where(mask, getattr(chosen, name), getattr(other, name)) for name in names}
    )
