"""`make docs-check` finds what pages print, and says what it could not run."""

from __future__ import annotations

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


def test_commands_and_python_are_found_with_their_lines(page: Path) -> None:
    from printed import commands_of, program_of

    assert list(commands_of(page)) == [
        (5, "dcgym doctor"),
        (7, "dcgym sweep --policies a --set x=1"),
        (8, 'dcgym shell -c "h1 ping #1"'),
    ]
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


def test_what_fails_is_named_and_so_is_what_no_time_was_left_for(page: Path) -> None:
    from check_commands import Check, Step

    check = Check(limit_s=60.0)
    steps = [Step("p.md", 1, "a", "false"), Step("p.md", 2, "b", "raise SystemExit(3)", "", True)]
    check.run_page([*steps, Step("p.md", 3, "c", "true"), Step("p.md", 4, "d", "", "no reason")])
    assert [failure.splitlines()[:2] for failure in check.failures] == [
        ["p.md:1: a", "1"],
        ["p.md:2: b", "3"],
    ]
    late = Check(limit_s=0.0)
    late.run_page([Step("p.md", 1, "a", "true")])
    assert late.failures == ["p.md:1: a\nno time was left"]
