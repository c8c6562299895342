"""The checks of configuration values."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dcgym.config import check_in, check_int, check_keys, check_positive, check_range
from dcgym.errors import ConfigError
from dcgym.files import load_mapping


def test_good_values_come_back_unchanged() -> None:
    assert check_positive("x", 0.5) == 0.5
    assert check_positive("x", np.float32(0.5)) == 0.5  # type: ignore[type-var]
    assert check_range("x", 1, 1, 2) == 1
    assert check_int("x", 7, 0) == 7
    assert check_in("x", "a", ("a", "b")) == "a"
    assert check_keys({"a": 1}, ("a",), "x") == {"a": 1}


def test_numbers_of_a_wrong_type_or_out_of_their_range_are_refused() -> None:
    for check, wrong, allowed in (
        (check_positive, (0, -1, float("nan"), float("inf"), "x", None, True), "a positive number"),
        (
            partial(check_range, low=1, high=2),
            (0.99, 2.01, float("nan"), "0.5", None),
            "a number from 1 to 2",
        ),
        (
            partial(check_int, low=1, high=4),
            (0, 5, 2.5, True, "3ms", None),
            "a whole number from 1 to 4",
        ),
    ):
        for value in wrong:
            with pytest.raises(ConfigError) as caught:
                check("x", value)  # type: ignore[operator]
            expected = f"x: value {value!r} is not allowed; allowed: {allowed}"
            assert str(caught.value) == expected


def test_check_in_suggests() -> None:
    with pytest.raises(ConfigError, match=r"allowed: ebpf, ovs; did you mean 'ebpf'\?$"):
        check_in("switch", "ebfp", ("ebpf", "ovs"))
    with pytest.raises(ConfigError, match=r"^switch: value \['ebpf'\]"):
        check_in("switch", ["ebpf"], {"ebpf": 1})


def test_check_keys_names_the_unknown_key_and_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        check_keys({"intervall": 1}, ("interval", "reward"), "env")
    assert str(caught.value) == (
        "env field: value 'intervall' is not allowed; allowed: interval, reward; "
        "did you mean 'interval'?"
    )
    with pytest.raises(ConfigError, match="a mapping"):
        check_keys(["interval"], ("interval",), "env")  # type: ignore[arg-type]


def test_load_mapping_reads_yaml_and_copies_dicts(tmp_path: Path) -> None:
    path = tmp_path / "env.yaml"
    path.write_text("topology: {name: dumbbell, hosts: 4}\ninterval: 50ms\n")
    expected = {"topology": {"name": "dumbbell", "hosts": 4}, "interval": "50ms"}
    assert load_mapping(path) == expected
    assert load_mapping(str(path)) == expected
    original = {"a": 1}
    copy = load_mapping(original)
    copy["a"] = 2
    assert original == {"a": 1}


def test_load_mapping_refuses_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    for content, reason in (
        (b"- a\n- b\n", "a mapping"),
        (b"", "a mapping"),
        (b"a: 1\n\tb: 2\n", "valid YAML .*line 2"),
        (b"1: 2\n", "a name"),
        (b"\xff\xfe\xfa", "a YAML file; the file holds text in UTF-16"),
        (b"a: !!python/object/apply:os.getcwd []\n", "valid YAML"),
        (None, "No such file"),
    ):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=reason) as caught:
            load_mapping(path)
        assert "\n" not in str(caught.value)
