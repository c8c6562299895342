"""Write the page of each environment from its docstring: ``make docs``.

With ``--check`` nothing is written, and the exit code says whether the pages are up to date.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

import gymnasium

import dcgym  # noqa: F401  registers the ids

PAGES = Path(__file__).resolve().parents[1] / "envs"


def page_of(env_id: str) -> tuple[Path, str]:
    """Return the path and the text of an environment's page."""
    entry_point = str(gymnasium.spec(env_id).entry_point)
    module_name, class_name = entry_point.split(":")
    docstring = inspect.getdoc(getattr(import_module(module_name), class_name)) or ""
    text = f"# {env_id}\n\n{docstring}\n"
    return PAGES / f"{module_name.rsplit('.', 1)[-1]}.md", text


def main() -> None:
    """Write or check every page."""
    stale = []
    for env_id in sorted(name for name in gymnasium.registry if name.startswith("dcgym/")):
        path, text = page_of(env_id)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            PAGES.mkdir(exist_ok=True)
            path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date, run 'make docs': {', '.join(stale)}")


if __name__ == "__main__":
    main()
