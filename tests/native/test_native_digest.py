"""A compiled module says when the sources of its interface have changed since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dcgym.native
from dcgym.errors import FeatureNotSupported
from dcgym.native.digest import digest_path, interface_digest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "kernel" / "module.cpp").write_text('#include "fabric.hpp"\n')
    (tmp_path / "kernel" / "fabric.hpp").write_text('  #  include "fabric.h"\n')
    (tmp_path / "kernel" / "fabric.cpp").write_text("body")
    (tmp_path / "include" / "fabric.h").write_text('#include "bounds.h"\n')
    (tmp_path / "include" / "bounds.h").write_text("layout")
    (tmp_path / "include" / "other.h").write_text("layout of another module")
    digest = interface_digest(tmp_path, "_native")
    assert digest is not None
    digest_path(tmp_path, "_native").write_text(digest)
    monkeypatch.setattr(dcgym.native, "_root", lambda: tmp_path)
    yield tmp_path
    dcgym.native._require_current.cache_clear()


def check() -> None:
    dcgym.native._require_current.cache_clear()
    dcgym.native._require_current("_native", "the native module")


@pytest.mark.parametrize("changed", ["kernel/module.cpp", "include/fabric.h", "include/bounds.h"])
def test_a_module_of_another_interface_is_refused_in_one_line(root: Path, changed: str) -> None:
    (root / changed).write_text("changed")
    with pytest.raises(FeatureNotSupported, match="built from other sources: make native"):
        check()


def test_other_changes_or_a_build_without_sources_are_taken(root: Path) -> None:
    for changed in ("kernel/fabric.cpp", "include/other.h"):
        (root / changed).write_text("changed")
        check()
    (root / "kernel" / "module.cpp").unlink()
    check()
