"""One tree of errors, one line per message."""

from __future__ import annotations

import pickle

import pytest

from dcgym import errors
from dcgym.errors import (
    BackendError,
    CommandError,
    ConfigError,
    DcgymError,
    FeatureNotSupported,
    MissingDependency,
    suggest,
)


def test_config_error_names_field_value_choices_and_nearest_name() -> None:
    error = ConfigError("topology", "dumbell", ["dumbbell", "fat-tree"], "dumbbell")
    assert str(error) == (
        "topology: value 'dumbell' is not allowed; allowed: dumbbell, fat-tree; "
        "did you mean 'dumbbell'?"
    )
    assert isinstance(error, ValueError)


def test_config_error_without_hint_ends_with_the_allowed_values() -> None:
    assert str(ConfigError("hosts", 3, "an even number")) == (
        "hosts: value 3 is not allowed; allowed: an even number"
    )


def test_messages_are_one_line_and_short_whatever_the_value() -> None:
    error = ConfigError("x", "line\n" * 1000, "two\nlines")
    assert "\n" not in str(error)
    assert len(str(error)) < 200


def test_command_error_holds_argv_code_and_stderr() -> None:
    error = CommandError(["tc", "qdisc", "add dev"], 2, "Error:\n  no such device\n")
    assert str(error) == "command 'tc qdisc 'add dev'' exited with 2: Error: no such device"
    assert error.argv == ("tc", "qdisc", "add dev")
    assert isinstance(error, BackendError)


def test_missing_dependency_gives_the_command() -> None:
    assert str(MissingDependency("ray", "rllib")) == (
        "ray is not installed; install it with: pip install 'dcgym[rllib]'"
    )
    error = MissingDependency("mininet", "apt-get install mininet")
    assert str(error).endswith("install it with: apt-get install mininet")
    assert isinstance(error, ImportError)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("k", 3, [2, 4], "4"),
        CommandError(["ip"], 1, "oh"),
        FeatureNotSupported("struct_ops", "needs Linux 5.6"),
        MissingDependency("ray", "rllib"),
        BackendError("dead"),
        BackendError("dead", "call reset() first"),
    ],
)
def test_errors_cross_process_borders(error: DcgymError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_advice_is_told_with_the_fact_and_apart() -> None:
    error = BackendError("dead", "call reset() first")
    assert str(error) == "dead; call reset() first"
    assert (error.fact, error.advice) == ("dead", "call reset() first")
    # Gymnasium's vector environments make an error of the error.
    assert str(type(error)(error)) == str(error)


def test_every_error_descends_from_the_base() -> None:
    for name in errors.__all__:
        item = getattr(errors, name)
        if isinstance(item, type):
            assert issubclass(item, DcgymError)
            assert item.__doc__


def test_suggest_finds_the_nearest_name_or_nothing() -> None:
    assert suggest("fat_tre", ["dumbbell", "fat-tree"]) == "fat-tree"
    assert suggest("CUBIC", ["reno", "cubic"]) == "cubic"
    assert suggest("zzz", ["dumbbell", "fat-tree"]) is None
