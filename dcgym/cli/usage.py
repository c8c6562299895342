"""Command lines that nobody understands: one line that names option, value and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from dcgym.errors import ConfigError, suggest

__all__ = ["UsageError", "is_help", "of_usage"]

# Typer hands out one of the errors of the library that parses for it; the others are its bases.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base of all errors about a command line."""

_TYPES = {
    **dict.fromkeys(("int", "integer", "whole"), "a whole number"),
    **dict.fromkeys(("str", "text"), "a text"),
    **{"float": "a number", "path": "a path"},
}


def is_help(error: Exception) -> bool:
    """Tell whether a command that needs more words has shown its help instead.

    Args:
        error: A `UsageError`.
    """
    return type(error).__name__ == "NoArgsIsHelpError"


def of_usage(error: Exception, root: Any, arguments: Sequence[str]) -> str:
    """Say in one line what is wrong with a command line, and what would be right.

    Args:
        error: A `UsageError`.
        root: The command of the whole program, as `typer.main.get_command` returns it.
        arguments: The command line without the program's name.
    """
    command, named, words = root, "dcgym", list(arguments)
    while words and words[0] in getattr(command, "commands", ()):
        named = words.pop(0)
        command = command.commands[named]
    known = {name: one for one in command.params for name in one.opts}
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None) or known.get(option)
    if parameter is not None:
        return _of_parameter(parameter, arguments)
    if option is not None:
        names = [name for name in known if name.startswith("-")] + ["--help"]
        return str(ConfigError("option", option, names, suggest(option, names)))
    if commands := list(getattr(command, "commands", ())):
        word = next((word for word in words if not word.startswith("-")), "")
        return str(ConfigError("command", word, commands, suggest(word, commands)))
    places = [str(one.name) for one in command.params if one.param_type_name == "argument"]
    allowed = f"{' and '.join(places)}, and nothing more" if places else "options only"
    return str(ConfigError(named, _in_parentheses(str(error)), allowed))


def _of_parameter(parameter: Any, arguments: Sequence[str]) -> str:
    """Say what an option or argument takes."""
    is_option = parameter.param_type_name == "option"
    name = max(parameter.opts, key=len) if is_option else str(parameter.name)
    value = _value_of(arguments, parameter.opts) if is_option else None
    if getattr(parameter, "is_flag", False):
        return str(ConfigError(name, value, "no value: it is on where it stands"))
    about = str(getattr(parameter, "help", None) or "").rstrip(".")
    allowed = _type_of(parameter) + (f" ({about})" if about else "")
    if value is None:
        return f"{name}: a value is missing; allowed: {allowed}"
    return str(ConfigError(name, value, allowed))


def _type_of(parameter: Any) -> str:
    # Newer versions of Typer keep the annotation, older ones a type called after what parses.
    described = getattr(parameter, "type_descriptor", None)
    kind = getattr(described, "annotation", None)
    name = parameter.type.name if described is None else getattr(kind, "__name__", "")
    return _TYPES.get(name.strip("_").lower(), "a value")


def _in_parentheses(message: str) -> str:
    """Return the words that a message ends with."""
    return message.partition(" (")[2].removesuffix(")") or message


def _value_of(arguments: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the last value that the command line gives an option; None where there is none."""
    found = None
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in options and equals:
            found = value
        elif name in options and place + 1 < len(arguments):
            found = arguments[place + 1]
    return found
