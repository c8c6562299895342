"""The command line: ``dcgym doctor | list | run | bench | train | shell | top | clean`` ..."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from dcgym.errors import BackendError

__all__ = ["main"]

EXIT_FAILURE = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

# Their results are kept one by one.
GO_ON = ("bench", "sweep", "twin-error")


def main(arguments: list[str] | None = None) -> None:
    """Run one command; turn every expected error into one line and an exit code.

    Args:
        arguments: Command line without the program's name; None reads ``sys.argv``.
    """
    from typer import Abort
    from typer.main import get_command

    from dcgym.cli.app import app
    from dcgym.cli.bench import add_suites
    from dcgym.cli.completion import VARIABLE
    from dcgym.cli.faults import Interrupted
    from dcgym.cli.options import as_written
    from dcgym.cli.output import write_in_any_locale
    from dcgym.cli.usage import UsageError, is_help, of_usage
    from dcgym.errors import BackendError, ConfigError, DcgymError

    write_in_any_locale()
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["bench"] or VARIABLE in os.environ:
        add_suites()
    command = get_command(app)
    try:
        code = command.main(args=words, prog_name="dcgym", standalone_mode=False)
    except UsageError as error:
        if is_help(error):
            sys.exit(EXIT_BAD_INPUT)
        _fail(of_usage(error, command, words), EXIT_BAD_INPUT)
    except ConfigError as error:
        _fail(str(as_written(error)), EXIT_BAD_INPUT)
    except BackendError as error:
        _fail(_as_told(error, words), EXIT_FAILURE)
    except Interrupted as error:
        _fail(f"interrupted: {error}", EXIT_INTERRUPTED)
    except (DcgymError, OSError) as error:
        _fail(str(error), EXIT_FAILURE)
    except (KeyboardInterrupt, Abort):
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:
        kept = "; finished results are kept" if words[:1] and words[0] in (*GO_ON, "train") else ""
        _fail(f"interrupted{kept}", EXIT_INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _as_told(error: BackendError, words: list[str]) -> str:
    """Return what happened, and in the place of advice for Python what the same command does."""
    if not error.advice:
        return error.fact
    goes_on = words[0] in GO_ON
    return f"{error.fact}; the same command {'runs what is left' if goes_on else 'begins anew'}"


def _fail(message: str, code: int) -> NoReturn:
    print(f"dcgym: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
