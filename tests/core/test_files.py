"""A wrong file is refused in one line that says what is in it and what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import dcgym
from dcgym.cli.sweep import read_sweep
from dcgym.cli.traffic import read_spec
from dcgym.errors import ConfigError
from dcgym.files import CONFIG, PLAN, describe_file
from dcgym.policies import load_policy
from dcgym.sndlib import read_sndlib
from dcgym.tasks.accelerators.presets import make_pool_of_devices
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.tasks.common.presets import read_config
from dcgym.topologies import make_topology
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.http.files import load_requests
from dcgym.traffic.sizes import read_sizes
from dcgym.traffic.vips import read_vips
from tests.support.config_fuzz import CONFIGS

pytestmark = pytest.mark.simulation

NODES = "nodes: [{name: h1, role: host}]\nlinks: []\n"
SNDLIB = (
    "?SNDlib native format; type: network; version: 1.0\n"
    "# one node\nNODES (\nA ( 1 2 )\n)\nLINKS (\n)\nDEMANDS (\n)\n"
)
SNDLIB_XML = (
    "<?xml version='1.0'?>\n<network xmlns='http://sndlib.zib.de/network' version='1.0'>\n"
    "<networkStructure><nodes/><links/></networkStructure><demands/></network>"
)
CONTENTS: dict[str, tuple[str | bytes, str]] = {
    "topology": (NODES, "a topology"),
    "plan": ('{"flows": [{"src": "h1", "dst": "h2"}]}', "a plan of traffic"),
    "scenario": ("preset: yao-sim-8\nload: 0.5\n", "a scenario"),
    "config": ("env: LoadBalancing-v1\nscenario: yao-sim-8\n", "arguments of an environment"),
    "sweep": ("env: LoadBalancing-v1\npolicies: [sed]\nset: {}\n", "a sweep"),
    "run": ('{"policy": "sed", "seed": 0, "metrics": {}}', "the record of a run"),
    "other": ("a: 1\nb: 2\n", "YAML with a, b"),
    "list": ("[1, 2, 3]", "JSON that begins with [1, 2, 3]"),
    "graphml": ("<?xml version='1.0'?>\n<graphml></graphml>", "GraphML"),
    "SNDlib": (SNDLIB, "a network of SNDlib"),
    "SNDlib in XML": (SNDLIB_XML, "a network of SNDlib"),
    "page": ("<!DOCTYPE html>\n<html></html>", "XML or HTML"),
    "gml": ("graph [\n  node [\n    id 0\n  ]\n]\n", "GML"),
    "table": (
        "# note\nfruit,weight\npear,1\n",
        "a table of 2 columns that begins with fruit,weight",
    ),
    "prose": ("Dear Sir or Madam\n", "text that begins with Dear Sir or Madam"),
    "picture": (b"\x89PNG\r\n\x1a\n\0\0", "a picture"),
    "archive": (b"PK\x03\x04\x14\0", "a ZIP archive"),
    "utf-16": ("a: 1".encode("utf-16"), "text in UTF-16"),
    "latin-1": ("name: caf\xe9".encode("latin-1"), "binary data"),
    "empty": (b"\xef\xbb\xbf \n", "nothing"),
}

DOORS: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...]]] = {
    "config": ("x.yaml", lambda path: dcgym.make_env(path).close(), ("config",)),
    "topology": ("x.yaml", make_topology, ("topology",)),
    "topology in JSON": ("x.json", make_topology, ("topology",)),
    "GraphML": ("x.graphml", make_topology, ()),
    "graph": ("x.yaml", lambda path: make_topology("graph", source=path), ("topology",)),
    "scenario": ("x.yaml", make_scenario, ("scenario",)),
    "accelerators": ("x.yaml", make_pool_of_devices, ("scenario",)),
    "plan in JSON": ("x.json", Plan.load, ("plan",)),
    "plan in CSV": ("x.csv", Plan.load, ()),
    "plan in Parquet": ("x.parquet", Plan.load, ()),
    "connection matrix": ("x.cm", Plan.load, ()),
    "flow list": ("x.txt", Plan.load, ()),
    "network of SNDlib": ("x.txt", read_sndlib, ("SNDlib", "SNDlib in XML")),
    "requests": ("x.csv", load_requests, ()),
    "VIPs": ("x.csv", read_vips, ()),
    "VIPs in Parquet": ("x.parquet", read_vips, ()),
    "sizes": ("x.txt", lambda path: read_sizes({"name": "cdf", "file": path}), ()),
    "traffic": (
        "x.yaml",
        lambda path: make_plan(read_spec(str(path), PLAN), make_topology("dumbbell")),
        ("plan",),
    ),
    "sweep": ("x.yaml", lambda path: read_sweep(path, {}), ("sweep", "config")),
    "checkpoint": ("x", load_policy, ()),
}
"""The name of a file, what reads it, and contents that are right, or wrong by their values."""


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_file_says_what_is_in_it(door: str, tmp_path: Path) -> None:
    name, read, right = DOORS[door]
    for kind, (content, meaning) in CONTENTS.items():
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if kind in right:
            continue
        with pytest.raises(ConfigError) as caught:
            read(path)
        # Where keys say nothing of the file, they are named one by one.
        if kind != "other" or path.suffix not in (".yaml", ".json"):
            assert f"the file holds {meaning}" in str(caught.value), (kind, str(caught.value))
        assert "\n" not in str(caught.value)


def test_what_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    assert describe_file(path) == "a Parquet table"
    with pytest.raises(ConfigError, match="a YAML file; the file holds a Parquet table"):
        dcgym.make_env(path)
    path.write_bytes(("# h\u00e4\n" * 2000 + "a: 1\n").encode())
    assert describe_file(path).startswith("text that begins with # h")
    assert describe_file(tmp_path / "missing") == (
        "nothing that can be read (No such file or directory)"
    )
    with pytest.raises(ConfigError, match=r"a folder with dcgym_policy\.json; the folder holds x$"):
        load_policy(tmp_path)


@pytest.mark.parametrize("name", [*CONFIGS])
def test_what_is_right_is_not_taken_for_something_else(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(CONFIGS[name], indent=2))
    assert describe_file(path) == CONFIG
    assert read_config(path) == json.loads(path.read_text())


def test_a_mistake_in_the_right_file_is_told_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("env: LoadBalancing-v1\nintervall: 1s\n")
    with pytest.raises(ConfigError, match=r"'intervall' .* did you mean 'interval'\?$") as caught:
        dcgym.make_env(path)
    assert "the file holds" not in str(caught.value)
    path.write_text(NODES + "link: []\n")
    with pytest.raises(ConfigError, match=r"^topology field: value 'link' .* 'links'\?$"):
        make_topology(path)
