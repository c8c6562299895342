"""Which runs the measured tables of pages are made of."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from printed import ROOT
from table_baselines import BASELINES
from table_cells import provenance

from dcgym.suites import Case, Suite, run_suite
from dcgym.suites.balancing import TWIN, pool_env
from dcgym.suites.held_out import BALANCING_POLICIES, held_out_balancing
from dcgym.suites.modern_congestion import modern_congestion
from dcgym.suites.results import load_records
from dcgym.tasks.balancing import make_scenario, server_group
from dcgym.traffic.sizes import exponential

__all__ = ["GAPS", "LIMITS", "PRINTED", "SERVICES", "SOURCES", "TWIN_ERRORS", "Source"]

GAPS = ("500us", "1ms", "2ms", "5ms", "20ms")
SIZES = (20_000_000, 8_000_000, 4_000_000)
LONE_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
# Mean service, and the length of a run: a million flows, or fewer where they take longer.
SERVICES: Mapping[str, float] = {"1ms": 22.0, "10ms": 62.0, "100ms": 302.0, "1s": 3002.0}
# Balancers, and flows of each that have only been opened and count.
LIMITS = ((1, 0), (1, 1024), (4, 0), (4, 1024))
PRINTED = "printed.txt"
TWIN_ERRORS = "twin_error.md"


class Source(Protocol):
    """Runs that tables are made of."""

    def run(self, name: str, folder: Path) -> str:
        """Run what is not finished, and say how it was measured.

        Args:
            name: Name of the source.
            folder: Folder of the results.
        """


@dataclass(frozen=True)
class Command:
    """A command of dcgym that writes its results into a folder.

    Attributes:
        text: The command, without its folder.
        options: What the page does not print, such as files beside the results.
    """

    text: str
    options: str = ""

    def run(self, name: str, folder: Path) -> str:
        """Run the command in the environment of this interpreter."""
        options = self.options.format(folder=folder.resolve())
        shell(f"{self.text} {options} --out {shlex.quote(str(folder.resolve()))}", ROOT)
        return provenance(self.text, load_records(folder))


@dataclass(frozen=True)
class Made:
    """A suite that only the pages need.

    Attributes:
        make: Returns it.
        require_fidelity: Worst fidelity of a run that is shown.
    """

    make: Callable[[], Suite]
    require_fidelity: str = "invalid"

    def run(self, name: str, folder: Path) -> str:
        """Run the suite."""
        command = f"python docs/_scripts/page_tables.py {name}"
        return provenance(command, run_suite(self.make(), folder, self.require_fidelity))


@dataclass(frozen=True)
class Tutorial:
    """Commands of a tutorial, as its page has them.

    Attributes:
        commands: The commands, in order. What the last one prints is kept in `PRINTED`.
    """

    commands: tuple[str, ...]

    def run(self, name: str, folder: Path) -> str:
        """Run the commands beside a link to the documents; those whose folder is there are done."""
        link = folder / "docs"
        if not link.exists():
            link.symlink_to(ROOT / "docs")
        for command in self.commands:
            out = command.partition("--out ")[2]
            if not out or not (folder / out).exists():
                (folder / PRINTED).write_text(shell(command, folder), encoding="utf-8")
        return ""


def shell(command: str, folder: Path) -> str:
    """Run a command of this environment, and return what it prints.

    Args:
        command: The command.
        folder: Where it runs.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    print(f"$ {command}", flush=True)
    return subprocess.run(
        command,
        shell=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def rows_and_columns() -> Suite:
    """Return `modern-congestion` as tables show it: rules with DCTCP, and controls with ECMP."""
    suite = modern_congestion()
    cases = tuple(
        case if case.env["congestion_control"] == "dctcp" else replace(case, policies=("ecmp",))
        for case in suite.cases
    )
    return replace(suite, cases=cases)


def letflow_gaps() -> Suite:
    """Return LetFlow with each gap: bulk, and web search over slow core links."""
    suite = modern_congestion()
    kinds = ("dctcp-stride-8", "dctcp-asymmetric-0.5")
    cases = tuple(
        replace(
            case,
            env={**case.env, "path_rule": "letflow", "flowlet_gap": gap},
            name=f"{gap}-{case.name}",
        )
        for gap in GAPS
        for case in suite.cases
        if case.name in kinds
    )
    return replace(suite, name="letflow-gaps", cases=cases, policies=("letflow",), shapes=())


def three_flows() -> Suite:
    """Return three flows that end one after the other, over one link."""
    flows = [
        {"src": f"h{n}", "dst": f"h{n + 3}", "size_bytes": size} for n, size in enumerate(SIZES, 1)
    ]
    env = {
        "env": "CongestionControl-v2",
        "backend": "simulation",
        "topology": {"name": "dumbbell", "hosts": 6, "rate": "25Mbit"},
        "traffic": {"flows": flows},
    }
    rules = ("cubic", "dctcp", "fair-share")
    return Suite("three-flows", "Flows that end.", (Case(env),), rules, 2, 13.0, 0.0)


def late_flows() -> Suite:
    """Return three flows that begin one after the other, in the kernel and in the twin."""
    flows = [
        {"src": f"h{n}", "dst": f"h{n + 3}", "start_ns": start_ns}
        for n, start_ns in enumerate((0, 700_000_000, 1_900_000_000), 1)
    ]
    env = {
        "env": "CongestionControl-v2",
        "topology": {"name": "dumbbell", "hosts": 6, "rate": "25Mbit", "queue": "60KB"},
        "traffic": {"flows": flows},
        "interval": "10ms",
    }
    cases = tuple(Case({**env, "backend": one}, one) for one in ("emulation", "simulation"))
    return Suite("late-flows", "Late flows.", cases, ("copa", "bbr"), 8, 20.0, 3.0, 1, True)


def lone_flows() -> Suite:
    """Return one CUBIC flow after the other over an idle dumbbell, a size each."""
    flows = [
        {"src": "h1", "dst": "h3", "size_bytes": size, "start_ns": start * 10**9}
        for start, size in enumerate(LONE_SIZES, 1)
    ]
    env = {
        "env": "CongestionControl-v2",
        "topology": {"name": "dumbbell", "hosts": 4, "rate": "100Mbit"},
        "traffic": {"flows": flows},
    }
    return Suite("lone-flows", "Flows that are alone.", (Case(env),), ("cubic",), 3, 8.0, 0.0)


def handshakes() -> Suite:
    """Return pools of 64 equal servers whose service takes as long as a handshake, or longer."""
    cases = []
    for service, episode_s in SERVICES.items():
        for balancers, limit in LIMITS:
            pool = make_scenario("yao-sim-8", service=exponential(service)).changed(
                load=0.8,
                groups=(server_group("server", 64, 1),),
                balancers=balancers,
                half_open_limit=limit,
            )
            env = pool_env(pool.to_dict(), TWIN)
            cases.append(Case(env, f"{service}-{balancers}-{limit}", episode_s=episode_s))
    return Suite("handshakes", "", tuple(cases), ("random-server", "lsq", "jiq-own"), warmup_s=2.0)


def held_out() -> Suite:
    """Return the held-out pools, with the policy that comes with the package."""
    rules = (*BALANCING_POLICIES, "cma-es")
    return replace(held_out_balancing(), policies=rules, checkpoints={"cma-es": "balancing-v1"})


SOURCES: Mapping[str, Source] = {
    # In simulation.
    "modern-balancing": Command("dcgym bench modern-balancing"),
    "modern-congestion": Made(rows_and_columns),
    "rate-sweep-balancing": Command("dcgym bench rate-sweep-balancing"),
    "rate-sweep-congestion": Command("dcgym bench rate-sweep-congestion"),
    "letflow-gaps": Made(letflow_gaps),
    "held-out-balancing": Made(held_out),
    "balancing-quick": Command("dcgym bench balancing-quick"),
    "handshakes": Made(handshakes),
    "three-flows": Made(three_flows),
    "beat-sed": Tutorial(("python docs/tutorials/beat_sed.py",)),
    # On real packets.
    "dctcp-and-ppo": Tutorial(
        (
            "dcgym train --algo ppo --seconds 180 --out runs/ppo",
            "dcgym sweep --policies dctcp,ppo --checkpoint ppo=runs/ppo"
            " --set topology.rate=5Mbit,10Mbit,20Mbit --seeds 3 --out runs/carries",
            "python docs/tutorials/dctcp_and_ppo.py runs/ppo",
        )
    ),
    "quick": Command("dcgym bench quick"),
    "quick-trained-in-twin": Command(
        "dcgym bench quick --train-backend simulation --policies dctcp,fair-share,ppo,ddpg"
        " --seeds 5 --trainings 5 --train-seconds 100"
    ),
    "front-end": Tutorial(
        (
            "cp -rL docs/tutorials/your_own package && pip install -q --no-deps"
            " --no-build-isolation --target site ./package",
            "PYTHONPATH=site dcgym sweep --config docs/tutorials/your_own/front_end.yaml"
            " --policies cubic,dctcp,shared-aimd --set topology.clients=2,4,8 --seeds 3"
            " --out runs/front-end",
        )
    ),
    "lone-flows": Made(lone_flows),
    "late-flows": Made(late_flows),
    "modern-balancing-emulation": Command(
        "dcgym bench modern-balancing --backend emulation --seeds 1"
    ),
    "modern-congestion-emulation": Command(
        "dcgym bench modern-congestion --backend emulation --seeds 1"
    ),
    "rate-sweep-balancing-emulation": Command(
        "dcgym bench rate-sweep-balancing --backend emulation"
    ),
    "rate-sweep-congestion-emulation": Command(
        "dcgym bench rate-sweep-congestion --backend emulation"
    ),
    "twin-error-balancing": Command(
        "dcgym twin-error balancing --seconds 13"
        " --scenario '{preset: testbed-7, service: {kind: exponential, mean_ns: 20ms}}'",
        f"--markdown {{folder}}/{TWIN_ERRORS}",
    ),
    "twin-error-congestion": Command(
        "dcgym twin-error congestion --seeds 2 --cases dumbbell-10,two-way,incast",
        f"--markdown {{folder}}/{TWIN_ERRORS}",
    ),
    "twin-error-fat-tree": Command(
        "dcgym twin-error congestion --seeds 1 --cases fat-tree-stride,fat-tree-hotspot"
        " --require-fidelity degraded",
        f"--markdown {{folder}}/{TWIN_ERRORS}",
    ),
    "twin-error-congestion-others": Command(
        "dcgym twin-error congestion --seeds 1 --cases dumbbell-100,dumbbell-1000,web-search"
        " --policies cubic,reno,dctcp,bbr,new-vegas,fixed-share,fair-share,random"
        " --require-fidelity degraded",
        f"--markdown {{folder}}/{TWIN_ERRORS}",
    ),
    # At the defaults of each environment.
    **{f"baselines-{name}": Made(one.suite, "degraded") for name, one in BASELINES.items()},
}
"""Runs by name."""
