"""Allow ``python -m dcgym``."""

from dcgym.cli import main

main()
