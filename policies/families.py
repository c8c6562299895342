"""Families of policies: those that act in the same kind of task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from dcgym.config import check_keys, read_arguments
from dcgym.errors import ConfigError, suggest
from dcgym.policies.base import Policy
from dcgym.policies.joint import JointPolicy
from dcgym.registry import Registry

__all__ = ["PairFamily", "PolicyFamily", "PolicyMaker", "build_policy"]

PolicyMaker: TypeAlias = Callable[..., Policy]
"""A class or function; its parameters are the policy's, and one named ``seed`` gets the seed."""


class PolicyFamily(Registry[PolicyMaker]):
    """The policies of one family of tasks, by name."""

    def __init__(self, family: str) -> None:
        """Begin without policies.

        Args:
            family: Name of the family, as tasks give it.
        """
        super().__init__(f"{family}-policies", "policy")


class PairFamily(PolicyFamily):
    """A policy of each of two families side by side, and policies for both at once.

    A pair's name is that of its parts with "+" between them. Pairs are made when they are asked
    for, so that a policy that is added to either family is in one at once.
    """

    def __init__(self, family: str, rates: PolicyFamily, paths: PolicyFamily) -> None:
        """Join two families.

        Args:
            family: Name of the family.
            rates: Policies of sending rates.
            paths: Policies of paths.
        """
        super().__init__(family)
        self._rates, self._paths = rates, paths

    def find(self, name: object, field: str | None = None) -> PolicyMaker:
        """Return the maker of a pair or of another policy of the family.

        Args:
            name: The name.
            field: Field named in the error; "policy" if None.

        Raises:
            ConfigError: There is no such name.
        """
        known = self.names()
        if isinstance(name, str) and name in known:
            return self[name]
        hint = suggest(name, known) if isinstance(name, str) else None
        raise ConfigError(field or self.field, name, known, hint)

    def names(self) -> list[str]:
        """List all names, those that plug-ins add included."""
        own = super().names()
        return [*self._pairs(), *own]

    def describe(self, name: str) -> str:
        """Return the line that describes a policy.

        Args:
            name: The name.

        Raises:
            ConfigError: There is no such name.
        """
        self.find(name)
        if name not in self._pairs():
            return super().describe(name)
        rates, paths = name.split("+")
        return f"{self._rates.describe(rates)} {self._paths.describe(paths)}"

    def __getitem__(self, name: str) -> PolicyMaker:
        return self._pairs()[name] if name in self._pairs() else super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._pairs()
        yield from super().__iter__()

    def __len__(self) -> int:
        return super().__len__() + len(self._rates) * len(self._paths)

    def _pairs(self) -> dict[str, PolicyMaker]:
        return {
            f"{rates}+{paths}": _pair(rates, self._rates[rates], paths, self._paths[paths])
            for rates in self._rates
            for paths in self._paths
        }


def build_policy(name: str, make: PolicyMaker, seed: int, params: Mapping[str, object]) -> Policy:
    """Make a policy from what a family holds.

    Args:
        name: Its name, for errors.
        make: Class or function of the policy.
        seed: Seed, for policies that have one.
        params: The other parameters.

    Raises:
        ConfigError: The policy does not have a parameter.
    """
    allowed = inspect.signature(make).parameters
    check_keys(params, [key for key in allowed if key != "seed"], f"policy {name}")
    own = read_arguments(make, params)
    return make(**own, seed=seed) if "seed" in allowed else make(**own)


def _pair(rates: str, make_rates: PolicyMaker, paths: str, make_paths: PolicyMaker) -> PolicyMaker:
    def make(seed: int = 0) -> Policy:
        parts = (
            build_policy(rates, make_rates, seed, {}),
            build_policy(paths, make_paths, seed, {}),
        )
        return JointPolicy(f"{rates}+{paths}", *parts)

    return make
