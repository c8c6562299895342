"""Write the page of each environment from its task's docstring: ``make docs``.

Measured tables stay as they are: `page_tables.py` writes them.

With ``--check`` nothing is written, and the exit code says whether the pages are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import MISSING, Field, fields
from pathlib import Path

import yaml
from environment_examples import EXAMPLES
from page_tables import kept
from table_baselines import BASELINES

from dcgym.backends.registry import ASKS_NOTHING
from dcgym.defaults import Default
from dcgym.envs.registry import ENVIRONMENTS, AgentForm

DOCS = Path(__file__).resolve().parents[1]
PAGES = DOCS / "envs"
LINKS = """## See also
[Formulas](formulas.md) of actions, features and rewards; [presets and scenarios](presets.md); [step
and session](../design/step.md)."""


def page_of(title: str, name: str, form: AgentForm) -> tuple[Path, str]:
    """Return the path and the text of an environment's page.

    Args:
        title: Heading of the page.
        name: Name of the environment in the words of Python's classes.
        form: The environment. What follows for callers in its documentation is left out.
    """
    text = inspect.cleandoc(form.page).split("\n\nArgs:\n")[0]
    file_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    summary, rest = text.split("\n\n", 1)
    described, *history = re.split(r"(?=^## Version History$)", rest, flags=re.MULTILINE)
    parts = [f"# {title}", summary, _picture(file_name), described.rstrip()]
    parts += [_defaults(form), _example(file_name), _baselines(file_name), LINKS, *history]
    return PAGES / f"{file_name}.md", "\n\n".join(part.strip() for part in parts if part) + "\n"


def _defaults(form: AgentForm) -> str:
    """Return the table of the arguments' defaults."""
    rows = [f"| {field.name} | {_default(field)} |" for field in fields(form.settings)]
    heading = ("## Defaults", *_of_other_backends(form))
    return "\n".join((*heading, "| argument | default |", "|---|---|", *rows))


def _of_other_backends(form: AgentForm) -> list[str]:
    """Return what arguments of one backend may be with another; nothing where there are none."""
    names = {field.name for field in fields(form.settings)}
    values = [
        " or ".join(f"`{name}={value!r}`" for value in values)
        for name, values in ASKS_NOTHING.items()
        if name in names and name != "probes"
    ]
    if not values:
        return []
    said = "An argument of one backend is no error with another where it asks for nothing there"
    return [f"{said}: {', '.join(values)}.", ""]


def _default(field: Field[object]) -> str:
    value = field.default
    if value is MISSING:
        if field.default_factory is MISSING:
            return "required"
        value = field.default_factory()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Default):
        value = str(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


def _example(name: str) -> str:
    return f"## Example\n```python\n{EXAMPLES[name].strip()}\n```"


def _picture(name: str) -> str:
    """Return a line with the picture of an environment (`docs/_scripts/gallery.py`), if any."""
    path = f"images/gallery/{name}.png"
    if not (DOCS / path).exists():
        return ""
    return f"![One interval of the environment, drawn with render](../{path})"


def _baselines(name: str) -> str:
    """Return the section of what was measured, if any, with the table that the page has."""
    if name not in BASELINES:
        return ""
    return f"## Baselines\n{kept(PAGES / f'{name}.md', f'baselines-{name}')}"


def pages() -> list[tuple[Path, str]]:
    """Return path and text of every page: single-agent environments, then multi-agent ones."""
    single, parallel = [], []
    for env_id, environment in ENVIRONMENTS.items():
        name = env_id.removeprefix("dcgym/").split("-v")[0]
        single.append(page_of(env_id, name, environment.single))
        if environment.agents is not None:
            title = f'parallel_env("{env_id.removeprefix("dcgym/")}")'
            parallel.append(page_of(title, f"Parallel{name}", environment.agents))
    return single + parallel


def main() -> None:
    """Write or check every page."""
    stale = []
    for path, text in pages():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            PAGES.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date, run 'make docs': {', '.join(stale)}")


if __name__ == "__main__":
    main()
