"""Names for nodes, from labels that people wrote."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from dcgym.topologies.validation import MAX_INTERFACE_NAME

__all__ = ["readable_names"]


def readable_names(labels: Sequence[object], degrees: Sequence[int]) -> list[str]:
    """Return names that interfaces can be named after, each different, close to the labels.

    Accents go, and so does what is neither letter nor digit; what is too long is cut. Names that
    are then the same get numbers. A label without letters and digits becomes s1, s2, ..., after the
    place of the node.

    Args:
        labels: Label of each node.
        degrees: Links of each node, whose number ends the longest name of its interfaces.
    """
    names: list[str] = []
    taken: set[str] = set()
    for number, (label, degree) in enumerate(zip(labels, degrees, strict=True), 1):
        most = MAX_INTERFACE_NAME - len(f"-eth{degree}")
        plain = unicodedata.normalize("NFKD", str(label)).encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9]", "", plain) or f"s{number}"
        name = (name if name[0].isalpha() else f"s{name}")[:most]
        unique, count = name, 1
        # Case differs where names do: "h1" and "H1" are hard to tell apart.
        while unique.lower() in taken:
            count += 1
            unique = f"{name[: most - len(str(count))]}{count}"
        taken.add(unique.lower())
        names.append(unique)
    return names
