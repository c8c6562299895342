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

from dcgym.defaults import Default
from dcgym.envs.registry import ENVIRONMENTS, AgentForm
from dcgym.envs.session import STEP_TIMES

TIMES_ROW = "| times of a step | those of `dcgym.envs.session.STEP_TIMES` |"
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
    times = [f"| {key} | {meaning} |" for key, meaning in STEP_TIMES.items()]
    text = text.replace(TIMES_ROW, "\n".join(times))
    file_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    summary, rest = text.split("\n\n", 1)
    described, *history = re.split(r"(?=^## Version History$)", rest, flags=re.MULTILINE)
    parts = [f"# {title}", summary, _picture(file_name), described.rstrip()]
    parts += [
        _defaults(form),
        _options(form),
        _example(file_name),
        _baselines(file_name),
        LINKS,
        *history,
    ]
    return PAGES / f"{file_name}.md", "\n\n".join(part.strip() for part in parts if part) + "\n"


def _defaults(form: AgentForm) -> str:
    """Return the table of the arguments' defaults."""
    rows = [f"| {field.name} | {_default(field)} |" for field in fields(form.settings)]
    return "\n".join(("## Defaults", "| argument | default |", "|---|---|", *rows))


def _options(form: AgentForm) -> str:
    """Return the section of the backends' options; nothing where there are none."""
    rows, neutral, example = [], [], ""
    for name, maker in form.makers.items():
        meanings = _attributes(maker.options)
        for field in fields(maker.options):
            if field.default is not None and not example:
                example = str({"name": name, field.name: field.default}).replace("'", '"')
            rows.append(f"| {field.name} | {name} | {_default(field)} | {meanings[field.name]} |")
            for value in maker.options.asks_nothing.get(field.name, ()):
                neutral.append(f"`{field.name}={value!r}`")
    if not rows:
        return ""
    instead = f", or asks for nothing: {', '.join(neutral)}" if neutral else ""
    said = f"""They stand in the mapping `backend`, such as `{example}`, or beside it as arguments.
An option of another backend is no error where it has its default{instead}."""
    table = ("| option | backend | default | meaning |", "|---|---|---|---|", *sorted(rows))
    return "\n".join(("## Options of backends", said, "", *table))


def _attributes(kind: type) -> dict[str, str]:
    """Return what the docstring of a class says of each of its attributes."""
    _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


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
