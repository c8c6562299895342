"""Networks of SNDlib: both forms, what a link says about its rate, and every kind of damage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcgym.errors import ConfigError
from dcgym.sndlib import (
    SndlibDemand,
    SndlibLink,
    SndlibModule,
    SndlibNetwork,
    SndlibNode,
    read_sndlib,
    to_bps,
)
from dcgym.topologies.builders.plain_graph import plain_graph
from dcgym.topologies.io.sndlib import sndlib_content

HEADER = "?SNDlib native format; type: network; version: 1.0\n"
NATIVE = f"""{HEADER}# network little

META (
  granularity = 5min
  time = 20240301-0000
  unit = MBITPERSEC
  origin = a test, by hand
)

NODES (
  A ( -84.38 33.75 ) () ()
  B ( 10 20.5 )
  C
)

LINKS (
  AB ( A B ) 2500.5 1.0 2.0 3.0 ( 100.0 7.0 ) ()
  BC ( B C ) 0.0 0.0 0.0 0.0 ( 155.0 1.0 )
  CA ( C A ) 0.0 0.0 0.0 0.0 ( 155.0 1.0 622.0 2.0 )
)

DEMANDS (
  A_B ( A B ) 1 0.522208 UNLIMITED ()   # the first
  B_C ( B C ) 2 30.0 4
)

ADMISSIBLE_PATHS (
  A_B (
    P1 ( AB )
    P2 ( CA BC )
  )
)
"""

XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <meta>
  <granularity>5min</granularity>
  <time>20240301-0000</time>
  <unit>MBITPERSEC</unit>
  <origin>a test, by hand</origin>
 </meta>
 <networkStructure>
  <nodes coordinatesType="geographical">
   <node id="A"><coordinates><x>-84.38</x><y>33.75</y></coordinates></node>
   <node id="B"><coordinates><x>10</x><y>20.5</y></coordinates></node>
   <node id="C"/>
  </nodes>
  <links>
   <link id="AB">
    <source>A</source><target>B</target><setupCost>3.0</setupCost><routingCost>2.0</routingCost>
    <preInstalledModule><capacity>2500.5</capacity><cost>1.0</cost></preInstalledModule>
    <additionalModules>
     <addModule><capacity>100.0</capacity><cost>7.0</cost></addModule>
    </additionalModules>
   </link>
   <link id="BC"><source>B</source><target>C</target>
    <additionalModules>
     <addModule><capacity>155.0</capacity><cost>1.0</cost></addModule>
    </additionalModules>
   </link>
   <link id="CA"><source>C</source><target>A</target>
    <additionalModules>
     <addModule><capacity>155.0</capacity><cost>1.0</cost></addModule>
     <addModule><capacity>622.0</capacity><cost>2.0</cost></addModule>
    </additionalModules>
   </link>
  </links>
 </networkStructure>
 <demands>
  <demand id="A_B"><source>A</source><target>B</target>
   <demandValue> 0.522208 </demandValue>
   <admissiblePaths>
    <admissiblePath id="P1"><linkId>AB</linkId></admissiblePath>
    <admissiblePath id="P2"><linkId>CA</linkId><linkId>BC</linkId></admissiblePath>
   </admissiblePaths>
  </demand>
  <demand id="B_C"><source>B</source><target>C</target>
   <routingUnit>2</routingUnit><demandValue>30.0</demandValue><maxPathLength>4</maxPathLength>
  </demand>
 </demands>
</network>
"""

SMALL, LARGE = SndlibModule(155.0, 1.0), SndlibModule(622.0, 2.0)
NETWORK = SndlibNetwork(
    "little",
    (SndlibNode("A", -84.38, 33.75), SndlibNode("B", 10.0, 20.5), SndlibNode("C")),
    (
        SndlibLink("AB", "A", "B", 2500.5, 1.0, 2.0, 3.0, (SndlibModule(100.0, 7.0),)),
        SndlibLink("BC", "B", "C", modules=(SMALL,)),
        SndlibLink("CA", "C", "A", modules=(SMALL, LARGE)),
    ),
    (
        SndlibDemand("A_B", "A", "B", 0.522208, paths=(("P1", ("AB",)), ("P2", ("CA", "BC")))),
        SndlibDemand("B_C", "B", "C", 30.0, 2, 4),
    ),
    "5min",
    "20240301-0000",
    "MBITPERSEC",
    "a test, by hand",
)


def write(tmp_path: Path, text: str, name: str = "little.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def network(links: str, nodes: str = "A\nB\nC") -> str:
    return f"{HEADER}NODES (\n{nodes}\n)\nLINKS (\n{links}\n)\nDEMANDS ( )\n"


@pytest.mark.parametrize(("text", "name"), [(NATIVE, "little.txt"), (XML, "little.xml")])
def test_both_forms_are_read_whole(text: str, name: str, tmp_path: Path) -> None:
    assert read_sndlib(write(tmp_path, text, name)) == NETWORK


def test_a_rate_is_what_is_installed_or_the_only_module(tmp_path: Path) -> None:
    assert sndlib_content(write(tmp_path, NATIVE)) == {
        "name": "little",
        "directed": True,
        "nodes": [{"name": "A"}, {"name": "B"}, {"name": "C"}],
        "links": [
            {"a": "A", "b": "B", "rate_bps": 2_500_500_000},
            {"a": "B", "b": "C", "rate_bps": 155_000_000},
            {"a": "C", "b": "A"},
        ],
    }


def test_the_content_makes_a_network(tmp_path: Path) -> None:
    topology = plain_graph(sndlib_content(write(tmp_path, NATIVE)), rate="10Mbit")
    rates_bps = {(link.a, link.b): link.rate_bps for link in topology.links}
    assert rates_bps == {
        **{(f"h{n}", node): 10_000_000 for n, node in enumerate("ABC", 1)},
        ("A", "B"): 2_500_500_000,
        ("B", "C"): 155_000_000,
        ("C", "A"): 10_000_000,
    }


@pytest.mark.parametrize(("unit", "factor"), [("KBITPERSEC", 10**3), ("GBITPERSEC", 10**9)])
def test_the_unit_is_that_of_the_file(unit: str, factor: int, tmp_path: Path) -> None:
    text = network("AB ( A B ) 2.5 0 0 0 ( )").replace("NODES", f"META (\nunit = {unit}\n)\nNODES")
    (link,) = sndlib_content(write(tmp_path, text))["links"]  # type: ignore[misc]
    assert link == {"a": "A", "b": "B", "rate_bps": 5 * factor // 2}


def test_rates_are_exact() -> None:
    assert to_bps(0.522208, 10**6) == 522_208
    assert to_bps(0.1, 10**6, 0.001) == 100
    assert to_bps(0.5, 1) == 1


def test_both_directions_of_a_directed_network_are_one_link(tmp_path: Path) -> None:
    rows = ("ab ( A B ) 5 0 0 0 ( )", "ba ( B A ) 5 0 0 0 ( )")
    both = (*rows, "cb ( C B ) 0 0 0 0 ( )", "bc ( B C ) 0 0 0 0 ( )")
    assert cables(write(tmp_path, network("\n".join(both)))) == [("A", "B", 5), ("C", "B", 3)]
    parallel = "\n".join((rows[0], rows[0].replace("ab", "second"), both[2]))
    links = cables(write(tmp_path, network(parallel)))
    assert links == [("A", "B", 5), ("A", "B", 5), ("C", "B", 3)]


def cables(path: Path) -> list[tuple[str, str, int]]:
    """Return the links between nodes of a file, with their rates in Mbit/s."""
    links = plain_graph(path, rate="3Mbit").links
    return [(k.a, k.b, k.rate_bps // 10**6) for k in links if k.a in "ABC"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("ab ( A B ) 5 0 0 0 ( )\nba ( B A ) 6 0 0 0 ( )", "links A-B and B-A: value '5000000 and"),
        (
            "ab ( A B ) 5 0 0 0 ( )\nba ( B A ) 5 0 0 0 ( )\nac ( A C ) 5 0 0 0 ( )",
            "links A-C and C-A: value '1 and 0'.*directed: false",
        ),
        ("aa ( A A ) 5 0 0 0 ( )", "a link from A to itself"),
    ],
)
def test_links_that_are_no_cables_are_refused(links: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        plain_graph(write(tmp_path, network(links)))


def test_an_unknown_unit_is_refused(tmp_path: Path) -> None:
    text = NATIVE.replace("MBITPERSEC", "MBYTEPERSEC")
    with pytest.raises(ConfigError, match=r"little, unit: value 'MBYTEPERSEC' .*, MBITPERSEC"):
        sndlib_content(write(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: network", "type: model", "version 1.0; the file holds"),
        ("LINKS (", "EDGES (", r"line 17: value 'EDGES \('"),
        ("LINKS (", "NODES (", r"line 17: .* little\.txt, line 11 begins another"),
        ("DEMANDS (", "DEMANDS ( )\nLINKS (", "line 24: .* line 17 begins another"),
        ("origin =", "place =", "line 8: value 'place'"),
        ("  C\n", "  C D\n", "line 14: value 'C D' .*in NODES"),
        ("  C\n", "  A\n", "line 14, node: value 'A' .*line 12 lacks"),
        ("622.0 2.0", "622.0", "line 20: .*a capacity and a cost for each module"),
        ("( B C ) 0.0", "( B D ) 0.0", "line 19, target: value 'D' .*a node of the file"),
        ("2500.5", "-1", "line 18, capacity: value '-1' .*0 or more"),
        ("155.0 1.0 )", "UNLIMITED 1.0 )", "line 19, module capacity: value 'UNLIMITED'"),
        (") 2 30.0 4", ") 0.5 30.0 4", "line 25, routing_unit: value '0.5'"),
        ("( CA BC )", "( CA BX )", "line 24, path: value 'BX' .*a link of the file"),
        ("P2 (", "P1 (", "line 24, paths: .*different ids"),
        ("  A_B (\n", "  A_C (\n", "line 29: value 'A_C' .*a demand of DEMANDS"),
    ],
)
def test_wrong_lines_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in NATIVE
    with pytest.raises(ConfigError, match=message) as caught:
        read_sndlib(write(tmp_path, NATIVE.replace(old, new)))
    assert "\n" not in str(caught.value)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    for text, missing in (
        (NATIVE.rstrip()[:-1], r"with a line \) after ADMISSIBLE_PATHS"),
        (NATIVE[: NATIVE.index("DEMANDS")], "with a section DEMANDS"),
    ):
        with pytest.raises(ConfigError, match=missing):
            read_sndlib(write(tmp_path, text))


@pytest.mark.parametrize(
    ("pattern", "new", "message"),
    [
        (r"</network>", "", "no element found.*; the file holds"),
        (r"<network ", "<solution ", "a network of SNDlib"),
        (r'version="1.0">', 'version="2.0">', "version: value '2.0'"),
        (r"<links>.*</links>", "", "with <links>"),
        (r'<node id="C"/>', "<node/>", "line 13: value '<node>' .*an attribute id"),
        (r'<node id="C"/>', '<node id="C"><layer/></node>', "line 13: .*<layer>.*<coordinates>"),
        (r'<node id="C"/>', '<node id="C">here</node>', "line 13: value 'here' .*no text"),
        (r"<demandValue>30.0</demandValue>", "", "line 44, value: value None"),
        (r"<x>10</x>", "<x>10</x><x>11</x>", "line 12: value '<x>' .*once in <coordinates>"),
        (r"<cost>7.0</cost>", "", "line 20: value '<addModule>' .*<capacity> and <cost>"),
        (r"<network ", "<!DOCTYPE network><network ", "1.0, without a document type; the file"),
        (
            r"<network ",
            '<!DOCTYPE network [<!ENTITY a SYSTEM "file:///etc/hostname">]><network ',
            "1.0, without a document type",
        ),
    ],
)
def test_wrong_elements_are_named(pattern: str, new: str, message: str, tmp_path: Path) -> None:
    text, count = re.subn(pattern, new, XML, count=1, flags=re.S)
    assert count == 1
    with pytest.raises(ConfigError, match=message) as caught:
        read_sndlib(write(tmp_path, text, "little.xml"))
    assert "\n" not in str(caught.value)
