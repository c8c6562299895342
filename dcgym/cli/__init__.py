"""The command line: ``dcgym doctor | list | run | bench | train | shell | top | clean`` ..."""

from __future__ import annotations

import sys

__all__ = ["main"]

EXIT_FAILURE = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command; turn every expected error into one line and an exit code.

    Args:
        arguments: Command line without the program's name; None reads ``sys.argv``.
    """
    from dcgym.cli.app import app
    from dcgym.cli.bench import add_suites
    from dcgym.cli.options import as_written
    from dcgym.errors import ConfigError, DcgymError

    try:
        if (sys.argv[1:] if arguments is None else arguments)[:1] == ["bench"]:
            add_suites()
        app(args=arguments, prog_name="dcgym")
    except ConfigError as error:
        _fail(str(as_written(error)), EXIT_BAD_INPUT)
    except (DcgymError, OSError) as error:
        _fail(str(error), EXIT_FAILURE)
    except KeyboardInterrupt:
        _fail("interrupted; finished results are kept", EXIT_INTERRUPTED)


def _fail(message: str, code: int) -> None:
    print(f"dcgym: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
