"""Tables of LaTeX as a strict reader takes them."""

from __future__ import annotations

import re

__all__ = ["read_tabular"]

_LETTERS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\dots{}": "…",
    r"$\pm$": "±",
    r"$-$": "-",
    "{[}": "[",
    "{*}": "*",
    "''": '"',
    "'{}": "'",
    "`{}": "`",
    "-{}-{}": "--",
    **{f"\\{letter}": letter for letter in "&%$#_{}"},
}
_TOKEN = re.compile("|".join(map(re.escape, sorted(_LETTERS, key=len, reverse=True))))
_FORBIDDEN = re.compile(r"[&%$#_{}~^\\<>|\"\[*]")
_MARK = re.compile(r"(\\textbf|\\underline|\\textit)\{(.*)\}")


def read_tabular(text: str) -> list[list[str]]:
    r"""Return the cells of a table of booktabs, the row of titles first.

    Marks (``\textbf{...}`` and ``\underline{...}``) stay around their text.

    Args:
        text: Comments, and one ``tabular``.
    """
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    begin, top, titles, middle, *rows, bottom, end = lines
    columns = re.fullmatch(r"\\begin\{tabular\}\{((?:[lr]|p\{[\d.]+\\linewidth\})+)\}", begin)
    assert columns is not None, begin
    count = len(re.findall(r"[lr](?![a-z])|p\{[^}]*\}|[lr](?=[lrp])", columns[1]))
    assert (top, middle, bottom) == (r"\toprule", r"\midrule", r"\bottomrule")
    assert end == r"\end{tabular}"
    found = []
    for line in (titles, *rows):
        assert line.endswith(r" \\"), line
        cells = [_text(cell) for cell in line.removesuffix(r" \\").split(" & ")]
        assert len(cells) == count, line
        found.append(cells)
    return found


def _text(cell: str) -> str:
    if mark := _MARK.fullmatch(cell):
        return f"{mark[1]}{{{_text(mark[2])}}}"
    # Nothing that means something to LaTeX is left beside what stands for a letter.
    assert not _FORBIDDEN.search(_TOKEN.sub("", cell)), cell
    return _TOKEN.sub(lambda token: _LETTERS[token[0]], cell)
