"""Input of every wrong kind ends in one clear line, whatever reads it.

`make fuzz` runs the properties for long: ``DCGYM_FUZZ_EXAMPLES`` is the number of examples of each,
which are then drawn anew every time.
"""

from __future__ import annotations

import os
import random
import resource
import secrets
import time
from contextlib import contextmanager
from functools import partial

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dcgym
from dcgym.cli import main
from dcgym.cli.options import read_settings
from dcgym.cli.sweep import read_sweep, read_values
from dcgym.cli.traffic import read_spec
from dcgym.errors import ConfigError
from dcgym.files import PLAN, load_mapping
from dcgym.units import MOST_VALUES
from dcgym.yaml_text import parse_yaml
from tests.support.command_fuzz import Commands, ended_well
from tests.support.config_fuzz import BASES, draw, names, put, read, refusal_of
from tests.support.wrong_values import SNIPPETS, deep

pytestmark = pytest.mark.simulation

EXAMPLES = int(os.environ.get("DCGYM_FUZZ_EXAMPLES", 0))
# A whole input takes milliseconds and a few MB; one that takes more is a defect, too.
MOST_BYTES, MOST_S = 3 << 30, 20
# A command is read in the time of ten configurations.
PER_COMMAND = 10

TEXTS = st.sampled_from(SNIPPETS) | st.text(max_size=20)


def fuzz(examples):
    return settings(
        # It keeps what it has drawn.
        max_examples=min(EXAMPLES, 10_000) or examples,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def _bounded():
    """Bound the memory of the long run, which is a process of its own."""
    if not EXAMPLES:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def escapes(draw, judge, examples):
    """Return what is wrong with the drawn cases that are not refused as they should be, in text."""
    first = secrets.randbits(64) if EXAMPLES else 1
    found = []
    with _bounded():
        for number in range(examples):
            seed = f"{first}-{number}"
            case, started = draw(random.Random(seed)), time.monotonic()
            try:
                wrong = judge(case)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error!s:.200}"
            if EXAMPLES and time.monotonic() - started > MOST_S:
                wrong = f"took over {MOST_S} s"
            if wrong:
                found.append(f"seed {seed}: {case!r:.500}: {wrong}")
    return "\n".join(found)


def _misnamed(case):
    refusal = read(case.name, case.content)
    place, _ = case.mistakes[-1]
    return None if refusal is None or names(refusal, place) else f"names no field: {refusal}"


def _crossed(case):
    read(case.name, case.content)


def test_the_inputs_without_mistakes_are_taken():
    assert {name: read(name, BASES[name]) for name in BASES} == dict.fromkeys(BASES)


def test_a_mistake_is_refused_in_one_line_that_names_its_field():
    assert not escapes(draw, _misnamed, EXAMPLES or 800)


def test_two_mistakes_are_refused_in_one_line():
    assert not escapes(partial(draw, count=2), _crossed, EXAMPLES or 200)


def test_command_lines_are_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Commands for runs shall find none of those beside this test.
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    commands = Commands(tmp_path)
    assert not escapes(commands.draw, ended_well, EXAMPLES // PER_COMMAND or 100)


@fuzz(200)
@given(TEXTS, st.sampled_from(["", "a: ", "{a: ", "topology:\n  ", "- "]))
def test_yaml_is_refused_in_one_line(text, before):
    refusal_of(lambda: parse_yaml(before + text, "x"))
    refusal_of(lambda: read_settings([f"x={text}"]))
    refusal_of(lambda: read_values([f"interval={text}"]))
    refusal_of(lambda: read_spec("{" + text, PLAN))


@fuzz(60)
@given(st.sampled_from(sorted(BASES)), st.data())
def test_files_with_a_damaged_line_are_refused_in_one_line(tmp_path_factory, name, data):
    config = yaml.safe_dump(yaml.safe_load(yaml.safe_dump(_plain(BASES[name]))))
    place = data.draw(st.integers(0, len(config)))
    path = tmp_path_factory.mktemp("fuzz") / "env.yaml"
    path.write_text(config[:place] + data.draw(TEXTS) + config[place:], "utf-8", "surrogatepass")
    refusal_of(lambda: dcgym.make_env(path))
    refusal_of(lambda: read_sweep(path, {}))


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_small_references_to_huge_data_are_refused():
    lines = ["a0: &a0 [1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    content = parse_yaml("\n".join(lines), "x")
    with pytest.raises(ConfigError, match="at most 10000000 values"):
        load_mapping(content)


def test_what_is_too_deep_or_too_long_is_refused_by_its_field():
    for value in (deep(40), deep(3000)):
        with pytest.raises(ConfigError, match=r"^topology: value \[\[.* nested at most 32 deep"):
            dcgym.make_env(topology=value)
    with pytest.raises(ConfigError, match=r"^topology(\.name){8}: .* nested at most 32 deep"):
        dcgym.make_env(topology=deep(3000, "dict"))
    links = ("topology", "links", 1, "rate")
    with pytest.raises(ConfigError, match=r"^config\.topology\.links\[1\]\.rate: .* 1024 bits"):
        dcgym.make_env(put(BASES["graph"], links, 10**400))


def test_the_search_for_the_name_of_a_too_large_value_is_bounded():
    looks = []

    class Counted(dict):
        def values(self):
            looks.append(self)
            return super().values()

    each = Counted(weights=[0] * 100_000)
    content = {f"part{number}": each for number in range(1000)} | {"last": 10**400}
    with pytest.raises(ConfigError, match="whole numbers of at most 1024 bits"):
        load_mapping(content, "config")
    assert 0 < len(looks) <= MOST_VALUES / 10 / 100_000


def test_more_flows_than_fit_in_an_interval_are_refused():
    stages = ("scenario", "workload", "applications", 0, "stages")
    config = put(BASES["full pool"], stages, [{"time": {"kind": "constant", "mean_ns": 1000}}])
    # 12 workers at a load of 0.845 finish 10 million flows of 1 us a second.
    with pytest.raises(ConfigError, match=r"lead_in: value '3.04e\+08 flows'"):
        dcgym.make_env(config)
    with pytest.raises(ConfigError, match=r"interval: value '1.01e\+07 flows' .* at most 5000000"):
        dcgym.make_env(config, interval="1s", lead_in=0)
    dcgym.make_env(config, interval="100ms", lead_in=0).close()


def test_the_command_line_says_it_in_one_line(capsys):
    for arguments in (
        ["sweep", "--seeds", str(2**31)],
        ["sweep", "--set", "interval=" + "[" * 1000],
        ["sweep", "--set", "interval=2001-99-99"],
        ["sweep", "--jobs", "100000000"],
        ["draw", "dumbbell", "--set", "hosts=!!int nx"],
        ["draw", "fat-tree", "--set", "k=" + "9" * 4000],
        ["traffic", "{" * 1000],
        ["run", "--env", "LoadBalancing-v1", "--config", "a\udc80b.yaml"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        error = capsys.readouterr().err
        assert caught.value.code == 2, arguments
        assert error.startswith("dcgym: ") and error.count("\n") == 1, error


def test_sweeps_count_their_runs_before_they_list_them():
    axes = {f"topology.{name}": list(range(1, 101)) for name in ("rate", "queue", "delay")}
    with pytest.raises(ConfigError, match=r"runs: value 1000000 .* at most 100000 runs"):
        read_sweep(None, {"set": axes})
    with pytest.raises(ConfigError, match="at most 100000 runs"):
        read_sweep(None, {"seeds": 99_999, "policies": "cubic,reno"})
