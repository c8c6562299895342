"""Commands are found where pages print them; what is not run as printed is accounted for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

SCRIPTS = ROOT / "docs" / "_scripts"
PAGE = """
Text with `dcgym list` in it.

```sh
dcgym doctor        # 2 s
dcgym sweep --policies a \\
    --set x=1       # two lines
dcgym shell -c "h1 ping #1"
```
- A list:
  ```python
  a = 1
  ```

```yaml
key: value
```

```python
print(a)
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_commands_lose_their_comments_and_line_breaks(page: Path) -> None:
    from printed import commands_of

    assert list(commands_of(page)) == [
        (5, "dcgym doctor"),
        (7, "dcgym sweep --policies a --set x=1"),
        (8, 'dcgym shell -c "h1 ping #1"'),
    ]


def test_the_python_of_a_page_is_one_program_with_its_lines(page: Path) -> None:
    from printed import program_of

    lines = program_of(page).splitlines()
    assert [(number, line) for number, line in enumerate(lines, start=1) if line] == [
        (12, "a = 1"),
        (20, "print(a)"),
    ]


def test_a_block_that_nobody_decided_about_is_refused(page: Path) -> None:
    from printed import blocks_of

    page.write_text("```console\n$ dcgym list\n```\n")
    with pytest.raises(ValueError, match=r"page\.md:1: nobody decided about 'console' blocks"):
        blocks_of(page)


def test_every_entry_is_of_a_printed_command(page: Path) -> None:
    from check_commands import read_entries, steps_of
    from printed import all_pages

    pages = all_pages()
    steps = [step for found in steps_of(pages, read_entries(pages)) for step in found]
    assert len(steps) > 60
    assert all(step.run or step.note for step in steps)


def test_a_command_that_fails_is_named(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from check_commands import Check, Step

    check = Check(limit_s=60.0)
    steps = [Step("p.md", 1, "a", "false"), Step("p.md", 2, "b", "raise SystemExit(3)", "", True)]
    check.run_page([*steps, Step("p.md", 3, "c", "true"), Step("p.md", 4, "d", "", "no reason")])
    assert [failure.splitlines()[:2] for failure in check.failures] == [
        ["p.md:1: a", "1"],
        ["p.md:2: b", "3"],
    ]


def test_nothing_begins_when_time_is_over(page: Path) -> None:
    from check_commands import Check, Step

    check = Check(limit_s=0.0)
    check.run_page([Step("p.md", 1, "a", "true")])
    assert check.failures == ["p.md:1: a\nno time was left"]


def test_the_command_line_explains_itself() -> None:
    command = [sys.executable, str(SCRIPTS / "check_commands.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--limit" in done.stdout
