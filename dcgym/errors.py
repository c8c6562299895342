"""The errors of dcgym: one tree, one class per cause, one line per message."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "NONE_RUNS",
    "BackendError",
    "CommandError",
    "ConfigError",
    "DcgymError",
    "FeatureNotSupported",
    "MissingDependency",
    "TrainingError",
    "UnexpectedArgument",
    "needs_reset",
    "suggest",
]


class DcgymError(Exception):
    """Base of every error that dcgym raises on purpose."""


class ConfigError(DcgymError, ValueError):
    """A configuration field holds a value that is not allowed."""

    def __init__(
        self, field: str, value: object, allowed: str | Iterable[object], hint: str | None = None
    ) -> None:
        """Build the message.

        Args:
            field: Name of the offending field, as the user wrote it.
            value: The value that was refused.
            allowed: A phrase, or the choices themselves.
            hint: Nearest allowed name, if any.
        """
        self.field = field
        self.value = value
        self.allowed = allowed if isinstance(allowed, str) else _join(allowed)
        self.hint = hint
        message = f"{field}: value {_shorten(value)} is not allowed; allowed: {self.allowed}"
        if hint is not None:
            message += f"; did you mean {hint!r}?"
        super().__init__(_one_line(message))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str, str | None]]:
        """Survive pickling: errors cross process borders (workers, Ray)."""
        return type(self), (self.field, self.value, self.allowed, self.hint)


class UnexpectedArgument(ConfigError, TypeError):
    """A call was given a keyword argument that it does not take.

    It is Python's own error too: TorchRL and others offer arguments such as ``frameskip``, and
    leave out what a `TypeError` names.
    """

    def __init__(
        self,
        field: str,
        value: object = None,
        allowed: str | Iterable[object] = "",
        hint: str | None = None,
    ) -> None:
        """Build the message.

        Args:
            field: "unexpected keyword argument" and the name; or, alone, the whole message, from
                which `gymnasium.make` raises a `TypeError` again.
            value: What the argument was given.
            allowed: Names of the arguments that the call takes.
            hint: Nearest allowed name, if any.
        """
        super().__init__(field, value, allowed, hint)
        if not allowed:
            self.args = (field,)


class BackendError(DcgymError, RuntimeError):
    """A backend died, hangs, or delivers stale data.

    Attributes:
        fact: What happened, for whoever reads it.
        advice: What the caller in Python can do about it; other faces say what their users can.
    """

    def __init__(self, fact: object = "", advice: str = "") -> None:
        """Keep both; the message is the one and then the other.

        Args:
            fact: What happened; or an error of this kind, from which others raise it again.
            advice: What the caller can do about it.
        """
        super().__init__(str(fact))
        self.fact, self.advice = str(fact), advice

    def __str__(self) -> str:
        return f"{self.fact}; {self.advice}" if self.advice else self.fact


NONE_RUNS = "no episode is running"
"""The fact where nothing has begun, or all is over."""


def needs_reset(fact: str = NONE_RUNS) -> BackendError:
    """Return the error of a call that has to follow a reset.

    Args:
        fact: Why it does.
    """
    return BackendError(fact, "call reset() first")


class TrainingError(DcgymError, RuntimeError):
    """A training cannot go on; its checkpoint holds what was learned before."""


class CommandError(BackendError):
    """An external command failed."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        """Build the message from what the command left behind.

        Args:
            argv: The command and its arguments.
            returncode: Exit status; negative means killed by that signal.
            stderr: What the command wrote to standard error.
        """
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr
        reason = _one_line(stderr) or "no message on stderr"
        super().__init__(f"command '{shlex.join(self.argv)}' exited with {returncode}: {reason}")

    def __reduce__(self) -> tuple[type[CommandError], tuple[tuple[str, ...], int, str]]:
        """Survive pickling."""
        return type(self), (self.argv, self.returncode, self.stderr)


class FeatureNotSupported(DcgymError, RuntimeError):
    """This machine or kernel lacks a feature."""

    def __init__(self, feature: str, hint: str) -> None:
        """Build the message.

        Args:
            feature: What is missing.
            hint: How to get it, or what works without it.
        """
        self.feature = feature
        self.hint = hint
        super().__init__(_one_line(f"{feature} is not available on this machine: {hint}"))

    def __reduce__(self) -> tuple[type[FeatureNotSupported], tuple[str, str]]:
        """Survive pickling."""
        return type(self), (self.feature, self.hint)


class MissingDependency(DcgymError, ImportError):
    """An optional Python package is not installed."""

    def __init__(self, package: str, extra_or_command: str) -> None:
        """Build the message.

        Args:
            package: The package that could not be imported.
            extra_or_command: An extra of dcgym ("rllib"), or a whole command.
        """
        self.package = package
        self.extra_or_command = extra_or_command
        command = extra_or_command
        if " " not in command:
            command = f"pip install 'dcgym[{extra_or_command}]'"
        super().__init__(f"{package} is not installed; install it with: {command}")

    def __reduce__(self) -> tuple[type[MissingDependency], tuple[str, str]]:
        """Survive pickling."""
        return type(self), (self.package, self.extra_or_command)


def suggest(name: object, choices: Iterable[object]) -> str | None:
    """Return the choice nearest to a misspelt name, or None.

    Args:
        name: What the user wrote.
        choices: What is allowed.

    >>> suggest("dumbell", ["dumbbell", "fat-tree"])
    'dumbbell'
    """
    if not isinstance(name, str):
        return None
    by_folded_name = {str(choice).lower(): str(choice) for choice in choices}
    matches = difflib.get_close_matches(name.lower(), by_folded_name, n=1, cutoff=0.6)
    return by_folded_name[matches[0]] if matches else None


def _join(choices: Iterable[object]) -> str:
    return ", ".join(str(choice) for choice in choices) or "none"


def _shorten(value: object, limit: int = 80) -> str:
    # Piece by piece: what refers to itself, or is nested thousands deep, has no end.
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > limit:
            return text[: limit - 3] + "..."
    return text


def _pieces(value: object) -> Iterator[str]:
    """Yield what `repr` writes, as far as it can be asked for."""
    if type(value) in (list, tuple) and isinstance(value, list | tuple):
        yield "[" if isinstance(value, list) else "("
        for position, item in enumerate(value):
            yield ", " if position else ""
            yield from _pieces(item)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        yield "]" if isinstance(value, list) else f"{comma})"
    elif type(value) is dict and isinstance(value, dict):
        yield "{"
        for position, (key, item) in enumerate(value.items()):
            yield ", " if position else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    else:
        try:
            yield repr(value)
        except Exception:  # Such as a whole number of thousands of digits.
            yield f"<{type(value).__name__}>"


def _one_line(text: str) -> str:
    return " ".join(text.split())
