"""Tables that C and Python share."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcgym.native import tables

TEXT = """/* A licence, and then:
 * DCGYM_ROW(symbol, name, description)
 */
DCGYM_ROW(one, "first", "what it is (RFC 1)")
/* DCGYM_ROW(two, "left out", "") */
DCGYM_ROW(three, "third",
          "a text of "
          "two parts, with a comma") /* and a remark */
#undef DCGYM_ROW
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "_FOLDER", tmp_path)
    return tmp_path / "some.h"


def test_rows_are_read_as_the_compiler_reads_them(write: Path) -> None:
    write.write_text(TEXT)
    assert tables.read_table("some") == (
        {"symbol": "one", "name": "first", "description": "what it is (RFC 1)"},
        {"symbol": "three", "name": "third", "description": "a text of two parts, with a comma"},
    )
    assert tables.names_of("some") == ("first", "third")


@pytest.mark.parametrize("row", ['(one, "first")', '(one, "first", "what", 4)'])
def test_a_row_of_other_columns_is_refused(write: Path, row: str) -> None:
    write.write_text(f"/* DCGYM_ROW(symbol, name, description) */\nDCGYM_ROW{row}\n")
    with pytest.raises(ValueError, match="argument"):
        tables.read_table("some")
