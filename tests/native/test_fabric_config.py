"""Bad input to the loader: one line that names the field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dcgym.errors import BackendError, ConfigError, FeatureNotSupported
from dcgym.monitors.network.queues import PORT_COUNTERS
from dcgym.native import bpf_object, require

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def fabric() -> Iterator[Any]:
    loaded = require().Fabric(
        str(bpf_object("fabric")), n_switches=2, n_hosts=4, n_ports=6, n_groups=3
    )
    yield loaded
    loaded.close()


def test_layout_agrees_with_the_c_header() -> None:
    layout = require().fabric_layout()
    assert PORT_COUNTERS.fields is not None
    assert layout["size"] == PORT_COUNTERS.itemsize
    assert layout["offsets"] == {name: field[1] for name, field in PORT_COUNTERS.fields.items()}


@pytest.mark.parametrize(
    ("method", "arguments", "field"),
    [
        # Above what the map of ports has room for.
        ("add_port", (16384, 0, 0), "ifindex"),
        ("add_port", (1, 2, 0), "switch_id"),
        ("add_port", (1, 0, 0, 10, 9, 1), "mark_max_bytes"),
        ("add_port", (1, 0, 0, 0, 0, 65537), "mark_probability"),
        ("set_group", (0, 0, [], []), "ifindexes"),
        ("set_group", (0, 0, [1] * 65, [1.0] * 65), "ifindexes"),
        ("set_group", (0, 0, [1, 2], [1.0]), "weights"),
        ("set_group", (0, 0, [1, 2], [1.0, -1.0]), "weights"),
        ("set_group", (0, 0, [1, 2], [0.0, 0.0]), "weights"),
        ("set_group", (0, 0, [1], [float("nan")]), "weights"),
        # Hosts are numbered from 1.
        ("set_route", (0, 0, 0), "host_number"),
    ],
)
def test_wrong_values_are_named(
    fabric: Any, method: str, arguments: tuple[Any, ...], field: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: value ") as caught:
        getattr(fabric, method)(*arguments)
    assert "\n" not in str(caught.value)


def test_a_fabric_of_no_hosts_is_refused() -> None:
    with pytest.raises(ConfigError, match="n_hosts"):
        require().Fabric(str(bpf_object("fabric")), n_switches=1, n_hosts=0, n_ports=1, n_groups=1)


def test_an_object_that_was_never_built_says_what_to_install() -> None:
    with pytest.raises(FeatureNotSupported, match="clang"):
        require().Fabric("no-such-object.bpf.o", n_switches=1, n_hosts=1, n_ports=1, n_groups=1)


def test_attaching_to_a_missing_interface_fails_with_its_number(fabric: Any) -> None:
    with pytest.raises(BackendError, match="2147483646"):
        fabric.attach(2147483646)


def test_a_closed_fabric_says_so_and_closes_twice() -> None:
    closed = require().Fabric(
        str(bpf_object("fabric")), n_switches=1, n_hosts=1, n_ports=1, n_groups=1
    )
    closed.close()
    closed.close()
    with pytest.raises(BackendError, match="closed"):
        closed.drop_counters()


def test_an_object_built_from_other_sources_has_not_its_maps() -> None:
    with pytest.raises(BackendError, match="no BPF map named"):
        require().Fabric(str(bpf_object("queues")), n_switches=1, n_hosts=1, n_ports=1, n_groups=1)
