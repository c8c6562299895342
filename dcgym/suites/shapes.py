"""Expected shapes: what published results say of a comparison, as data that records decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dcgym.config import check_in, check_keys, check_list, read_numbers
from dcgym.errors import ConfigError
from dcgym.units import read_number

__all__ = [
    "RELATIONS",
    "Check",
    "Claim",
    "Shape",
    "Term",
    "all_below",
    "check_shapes",
    "shape_from_dict",
    "shapes_among",
]

RELATIONS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Term:
    """A metric of a policy's runs in a case, times a factor.

    Attributes:
        metric: Name in the records' metrics.
        policy: Name of the policy.
        case: Name of the case.
        factor: What the metric is multiplied with.
    """

    metric: str
    policy: str
    case: str = ""
    factor: float = 1.0

    def __str__(self) -> str:
        factor = "" if self.factor == 1 else f"{self.factor:g} x "
        return f"{factor}{self.metric} of {self.policy}" + (f" in {self.case}" if self.case else "")


@dataclass(frozen=True)
class Check:
    """An inequality of means over seeds; the seeds of two terms are paired.

    Attributes:
        left: The first term.
        relation: One of `RELATIONS`.
        right: The other term, or a number in the metric's unit.
    """

    left: Term
    relation: str
    right: Term | float

    def __post_init__(self) -> None:
        """Check the relation."""
        read_numbers(self)
        check_in("shape.relation", self.relation, RELATIONS)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms that need runs."""
        return (self.left, self.right) if isinstance(self.right, Term) else (self.left,)

    def __str__(self) -> str:
        right = str(self.right) if isinstance(self.right, Term) else f"{self.right:g}"
        return f"{self.left} {self.relation} {right}"


@dataclass(frozen=True)
class Shape:
    """A claim that holds where all of its checks do.

    Attributes:
        name: Short name, once in a suite.
        claim: What is expected, in one sentence.
        source: Where it was published, or that it is our own expectation.
        checks: What must hold for it, one or more.
    """

    name: str
    claim: str
    source: str
    checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        """Refuse a claim that nothing could refute."""
        if not self.checks:
            raise ConfigError(f"checks of shape {self.name}", (), "one or more")


Claim: TypeAlias = tuple[str, str, str, Sequence[Check]]
"""Name, claim, source and checks of a shape, whose checks may be none."""


def all_below(
    metric: str, policy: str, other: str, cases: Sequence[str], factor: float = 1.0
) -> tuple[Check, ...]:
    """Return the checks that a policy has less of a metric than another one, case by case.

    Args:
        metric: Name of the metric.
        policy: The policy that has less.
        other: The other one.
        cases: Names of the cases.
        factor: What the other's metric is multiplied with.
    """
    return tuple(
        Check(Term(metric, policy, case), "<", Term(metric, other, case, factor)) for case in cases
    )


def shapes_among(
    claims: Sequence[Claim],
    cases: Sequence[str],
    policies: Sequence[str],
) -> tuple[Shape, ...]:
    """Return the shapes that a part of a suite can show: others have no case, or not its policies.

    Args:
        claims: All that the whole suite may show.
        cases: Names of the part's cases.
        policies: Names of its policies.
    """
    shapes = []
    for name, claim, source, checks in claims:
        kept = tuple(one for one in checks if all(term.case in cases for term in one.terms))
        if kept and all(term.policy in policies for one in kept for term in one.terms):
            shapes.append(Shape(name, claim, source, kept))
    return tuple(shapes)


def check_shapes(shapes: Sequence[Shape], cases: Sequence[str], policies: Sequence[str]) -> None:
    """Refuse shapes of cases or policies that there are not.

    Args:
        shapes: The shapes.
        cases: Names of the suite's cases.
        policies: Names of all policies that such a suite can have.

    Raises:
        ConfigError: A name is unknown, or two shapes have the same.
    """
    names = [shape.name for shape in shapes]
    if len(set(names)) < len(names):
        raise ConfigError("shapes", names, "each name once")
    for shape in shapes:
        for term in (term for check in shape.checks for term in check.terms):
            check_in(f"case of shape {shape.name}", term.case, cases)
            check_in(f"policy of shape {shape.name}", term.policy, policies)


def shape_from_dict(data: Mapping[str, object]) -> Shape:
    """Return a shape that `dataclasses.asdict` turned into plain data.

    Args:
        data: The plain data.

    Raises:
        ConfigError: A field is unknown, missing or of the wrong kind.
    """
    check_keys(data, ("name", "claim", "source", "checks"), "shape")
    checks = check_list("shape.checks", data.get("checks"), "a list")
    name, claim, source = (str(data.get(name, "")) for name in ("name", "claim", "source"))
    return Shape(name, claim, source, tuple(_check_from_dict(one) for one in checks))


def _check_from_dict(data: object) -> Check:
    if not isinstance(data, Mapping) or data.keys() != {"left", "relation", "right"}:
        raise ConfigError("shape.checks", data, "mappings of left, relation and right")
    right = data["right"]
    number = read_number(right)
    return Check(
        _term_from_dict(data["left"]),
        str(data["relation"]),
        _term_from_dict(right) if number is None else float(number),
    )


def _term_from_dict(data: object) -> Term:
    if not isinstance(data, Mapping):
        raise ConfigError("shape.term", data, "a mapping")
    check_keys(data, ("metric", "policy", "case", "factor"), "shape.term")
    metric, policy, case = (str(data.get(name, "")) for name in ("metric", "policy", "case"))
    return Term(metric, policy, case, float(data.get("factor", 1.0)))
