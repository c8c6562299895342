"""Write the page of each environment from its docstring: ``make docs``.

With ``--check`` nothing is written, and the exit code says whether the pages are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import gymnasium

import dcgym  # noqa: F401  registers the ids
from dcgym.envs.factory import PARALLEL_ENVS

PAGES = Path(__file__).resolve().parents[1] / "envs"


def page_of(title: str, name: str, entry_point: str) -> tuple[Path, str]:
    """Return the path and the text of an environment's page."""
    module_name, class_name = entry_point.split(":")
    docstring = inspect.getdoc(getattr(import_module(module_name), class_name)) or ""
    file_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.split("-v")[0]).lower()
    return PAGES / f"{file_name}.md", f"# {title}\n\n{docstring}\n"


def pages() -> list[tuple[Path, str]]:
    """Return path and text of every page: single-agent environments, then multi-agent ones."""
    ids = sorted(name for name in gymnasium.registry if name.startswith("dcgym/"))
    single = [
        page_of(env_id, env_id.removeprefix("dcgym/"), str(gymnasium.spec(env_id).entry_point))
        for env_id in ids
    ]
    parallel = [
        page_of(f'parallel_env("{name}")', f"Parallel{name}", entry_point)
        for name, entry_point in PARALLEL_ENVS.items()
    ]
    return single + parallel


def main() -> None:
    """Write or check every page."""
    stale = []
    for path, text in pages():
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
