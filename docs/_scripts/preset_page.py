"""Write docs/envs/presets.md and its drawings from the presets themselves: ``make docs``.

With ``--check`` nothing is written, and the exit code says whether they are up to date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from drawings import device_pool_drawing, network_drawing, pool_drawing

from dcgym.tasks.accelerators import POOL_PRESETS, AcceleratorPool, make_pool_of_devices
from dcgym.tasks.accelerators.presets import VARIANTS
from dcgym.tasks.balancing import SCENARIOS, Scenario, ServerGroup, make_scenario
from dcgym.tasks.common.presets import PRESETS
from dcgym.tasks.congestion import presets as _network_presets  # noqa: F401
from dcgym.tasks.flows import presets as _flow_presets  # noqa: F401
from dcgym.topologies import make_topology
from dcgym.traffic.http import Application
from dcgym.traffic.sizes import Distribution

DOCS = Path(__file__).resolve().parents[1]
PICTURES = Path("images/presets")
INTRODUCTION = """# Presets and scenarios

A preset is a name for a whole configuration. Scenarios describe pools of servers, for load
balancing. Network presets describe networks, for congestion control. This page comes from the
presets themselves, so its numbers are those that run.
"""
SCENARIOS_TEXT = """## Scenarios of load balancing

`scenario="NAME"` chooses one, and `scenario={"preset": "NAME", "load": 0.9}` changes its options.
A drawing has a box for each server and a square for each processor. Every server also has an I/O
device that all its flows share; only applications with an I/O stage use it.

Where nothing is said about weights, they are in proportion to the processors. In `yao-sim-8` and
`markov-2`, `right_weights: false` swaps them. The default environment is made so:
`{"preset": "yao-sim-8", "load": 0.85, "right_weights": False}`.

Every preset also takes `arrivals`, `service`, `correlation`, `io_limit` and `events`
([arrivals and service](../guides/balancing.md#arrivals-and-service)).
"""
_OWN = ", ".join(f"`{name}`" for name in VARIANTS)
DEVICES_TEXT = f"""## Pools of servers with accelerators

`scenario="NAME"` of `AcceleratorBalancing-v0` chooses one, and `scenario={{"preset": "NAME",
"demand": "exponential"}}` changes its options. Any preset takes {_OWN}.
The [guide](../guides/accelerators.md) has the rest. Capacities are those that Tajbakhsh (2023)
measured.
"""
NETWORKS_TEXT = """## Networks of congestion control

`dcgym.make_env("NAME")` builds one, and `dcgym run --config NAME` runs it. They are the settings
of [Iroko](../results/bibliography.md#systems).
"""
DRAWS_TEXT = """## Draws to train on

These presets have distributions in the place of values (`randomise`). Each reset draws a scenario
of a [split](../guides/scores.md#splits).
"""
SOURCES = {
    "yao-sim-8": "Yao et al., tables 9 and 10",
    "hlb-128": "Yao 2023, section 6.5",
    "charon-64": "Yao 2023, chapter 4 (Charon)",
    "markov-2": "Yao 2023, section 6.2.1",
    "large-20": "Yao et al., table 14",
    "park-10": "Mao et al. 2019 (Park), `load_balance`",
    "two-speeds": "ours, for [draws](../guides/scores.md)",
    "testbed-7": "Yao 2023, sections 6.4 and 7.5",
    "testbed-20": "Yao 2023, sections 6.4 and 7.5",
}


def main() -> None:
    """Write or check the page and its drawings."""
    stale = []
    for name, text in files().items():
        path = DOCS / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(name))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date, run 'make docs': {', '.join(stale)}")


def files() -> dict[Path, str]:
    """Return the text of each file by its path below docs/."""
    parts, found = [INTRODUCTION, SCENARIOS_TEXT], {}
    for name in SOURCES:
        scenario = make_scenario(name)
        found[PICTURES / f"{name}.svg"] = pool_drawing(scenario)
        parts.append(_scenario_section(name, scenario))
    parts.append(DEVICES_TEXT)
    found[PICTURES / "p4hauler-2.svg"] = device_pool_drawing(make_pool_of_devices("p4hauler-2"))
    parts.append(_device_table())
    parts.append(NETWORKS_TEXT)
    drawn = [name for name in PRESETS.names() if "randomise" in PRESETS[name]]
    for name in PRESETS.names():
        if name in drawn:
            continue
        config = PRESETS[name]
        found[PICTURES / f"{name}.svg"] = network_drawing(make_topology(config["topology"]))
        parts.append(_network_section(name, config))
    parts.append(DRAWS_TEXT)
    parts += [_drawn_section(name, PRESETS[name]) for name in drawn]
    return {Path("envs/presets.md"): "\n".join(parts), **found}


def _scenario_section(name: str, scenario: Scenario) -> str:
    rates = scenario.rates_per_s
    pool, plane = scenario.pool, scenario.data_plane
    rows = [
        ("source", SOURCES[name]),
        ("balancers", str(pool.balancers)),
        *((f"servers `{group.name}`", _group(group)) for group in scenario.pool.groups),
        ("waiting places of a server", str(pool.backlog)),
        *((f"flows `{app.name}`", _application(app)) for app in scenario.workload.applications),
        ("load", f"{scenario.workload.load:g} of the busiest resource"),
        ("arrivals", f"Poisson, {sum(rates):.4g} flows a second at this load"),
        ("latency between two nodes", f"{_span_us(plane.latency_ns)} us, uniform"),
    ]
    return _section(
        name,
        f"{len(pool.groups)} groups of servers behind {pool.balancers} balancers",
        rows,
        _options(name),
    )


def _device_table() -> str:
    rows = [
        f"| `{name}` | {POOL_PRESETS.describe(name)} | {_devices(make_pool_of_devices(name))} |"
        for name in POOL_PRESETS.names()
    ]
    head = "| preset | what it is | devices of a server |\n|---|---|---|\n"
    picture = f"![Two servers with a SmartNIC each](../{PICTURES}/p4hauler-2.svg)"
    return f"{picture}\n\n{head}" + "\n".join(rows) + "\n"


def _devices(pool: AcceleratorPool) -> str:
    group, rates = pool.groups[0], pool.capacities_per_s[0]
    return "; ".join(
        f"{one.kind}, {one.workers} worker{'s' * (one.workers > 1)}, {rate:.3g} requests a second"
        for one, rate in zip(group.devices, rates, strict=False)
    )


def _network_section(name: str, config: Mapping[str, Any]) -> str:
    text = yaml.safe_dump(dict(config), sort_keys=False, default_flow_style=None, width=100)
    picture = f"![Network of {name}](../{PICTURES}/{name}.svg)"
    return f"### `{name}`\n\n{PRESETS.describe(name)}.\n\n{picture}\n\n```yaml\n{text}```\n"


def _drawn_section(name: str, config: Mapping[str, Any]) -> str:
    # Lists that several distributions share are written out: YAML's references are no help here.
    plain = json.loads(json.dumps(config))
    text = yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=100)
    return f"### `{name}`\n\n{PRESETS.describe(name)}\n\n```yaml\n{text}```\n"


def _section(name: str, title: str, rows: Sequence[tuple[str, str]], options: str) -> str:
    table = "\n".join(f"| {key} | {value} |" for key, value in rows)
    picture = f"![{title}](../{PICTURES}/{name}.svg)"
    return f"### `{name}`\n\n{picture}\n\n| | |\n|---|---|\n{table}\n\n{options}\n"


def _options(name: str) -> str:
    parameters = inspect.signature(SCENARIOS[name]).parameters.values()
    words = (f"`{one.name}` ({yaml.safe_dump(one.default).split()[0]})" for one in parameters)
    return f"Options and their defaults: {', '.join(words)}."


def _group(group: ServerGroup) -> str:
    cpu = group.resources[0]
    many = "s" if cpu.workers > 1 else ""
    text = f"{group.count} of {cpu.workers} processor{many}"
    text += "" if cpu.speed == 1 else f" of speed {cpu.speed:g}"
    return text + ("" if group.weight is None else f", configured weight {group.weight:g}")


def _application(application: Application) -> str:
    stages = (f"{stage.resource} {_time(stage.time)}" for stage in application.stages)
    share = "" if application.share == 1 else f"{application.share:.0%} of the flows: "
    return share + ", then ".join(stages)


def _time(time: Distribution) -> str:
    mean = f"{time.mean_ns / 1e6:g} ms"
    return mean if time.kind == "constant" else f"{mean} on average, {time.kind}"


def _span_us(span: tuple[int, int]) -> str:
    low, high = (f"{end / 1e3:g}" for end in span)
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    main()
