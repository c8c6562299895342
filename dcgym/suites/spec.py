"""What a run and a training are told: plain data that a worker process can be handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TypeAlias, TypeVar

from dcgym.backends.records import Record
from dcgym.config import check_int, check_keys, check_name, read_numbers
from dcgym.errors import ConfigError

__all__ = ["Arguments", "RunSpec", "Scalar", "TrainingSpec", "spec_from_dict", "spec_to_dict"]

Arguments: TypeAlias = Mapping[str, object]
"""Arguments of an environment by name; ``env`` names it."""
# Of the learning libraries, which hand it to NumPy's old generator.
LARGEST_SEED = 2**32 - 1

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: a policy in an environment, from one seed.

    Attributes:
        env: Arguments of the environment.
        policy: Name of the policy.
        steps: Steps of the run, at most.
        seed: Seed of the environment and of the policy.
        warmup_s: Time at the start that the metrics leave out.
        scenario: Name of the case for the results.
        sweep: Values of swept arguments by path.
        params: Parameters of the policy.
        checkpoint: Folder of a learned policy.
        training: Summary of the training that made it.
        folder: Where steps, flows and summary are written; nowhere if None.
        key: What tells these settings from others, for the summary.
    """

    env: Arguments
    policy: str
    steps: int
    seed: int = 0
    warmup_s: float = 0.0
    scenario: str = ""
    sweep: Mapping[str, Scalar] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    checkpoint: str | None = None
    training: Record | None = None
    folder: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        """Check what no environment does."""
        read_numbers(self)
        check_int("seed", self.seed, 0)
        check_name("policy", self.policy)
        if self.scenario != "":
            check_name("scenario", self.scenario)


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """One training of a learner.

    Attributes:
        env: Arguments of the environment.
        policy: Name of the learner.
        folder: Folder of the checkpoint and of ``training.json``.
        seed: Seed of the learner.
        train_s: Wall-clock seconds; None for any number.
        envs: Environments side by side; None for what suits the algorithm.
        steps: Environment steps; None for any number.
        frames: Observations that the network is shown in a row.
        normalise: Whether observations are scaled.
        settings: Hyper-parameters by the names of the library.
        resume: Whether to go on from the checkpoint in the folder.
        clone_from: Classic policy whose actions the network learns first; None for none.
        shaping: Weight of each measurement in the potential of a state, by its label.
        address: Head of a cluster on whose machines the environments run; None for this machine.
        key: What tells these settings from others, for the summary.
    """

    env: Arguments
    policy: str
    folder: str
    seed: int = 0
    train_s: float | None = 120.0
    envs: int | None = 4
    steps: int | None = None
    frames: int = 1
    normalise: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    resume: bool = False
    clone_from: str | None = None
    shaping: Mapping[str, object] = field(default_factory=dict)
    address: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        """Check what no environment does."""
        read_numbers(self)
        check_int("seed", self.seed, 0, LARGEST_SEED)


_Spec = TypeVar("_Spec", RunSpec, TrainingSpec)


def spec_to_dict(spec: RunSpec | TrainingSpec) -> dict[str, object]:
    """Return a specification as JSON can hold it, as far as the environment's arguments can be.

    Args:
        spec: The specification.
    """
    return {one.name: getattr(spec, one.name) for one in fields(spec)}


def spec_from_dict(kind: type[_Spec], content: Mapping[str, object]) -> _Spec:
    """Return the specification that `spec_to_dict` made a mapping of.

    Args:
        kind: Class of the specification.
        content: The mapping.

    Raises:
        ConfigError: A field is unknown or missing.
    """
    known = {one.name: one for one in fields(kind)}
    check_keys(content, tuple(known), "specification")
    for name, one in known.items():
        if name not in content and one.default is MISSING and one.default_factory is MISSING:
            raise ConfigError(f"specification {name}", None, "a value: it has no default")
    # The fields' types are what `spec_to_dict` wrote.
    return kind(**content)  # type: ignore[arg-type]
