"""What programs of emulated hosts reach, as `reached.yaml` and docs/guides/trust.md say."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcgym.errors import CommandError
from tests.support.waiting import wait_for

pytestmark = pytest.mark.emulation

ROWS = yaml.safe_load(Path(__file__).with_name("reached.yaml").read_text(encoding="utf-8"))
WAYS_OUT = Path(__file__).parents[2] / "support" / "ways_out.py"
# Arguments of `sleep`, as patterns that do not match themselves.
MACHINE_ARGUMENT, OTHER_ARGUMENT, OWN_ARGUMENT = "[3]1556", "[3]1557", "[3]1558"
FUNCTIONS = r"""
connect() {
    python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1].replace("@", chr(0)))' "$1"
}
connect_to_port() {
    python3 -c 'import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$1"
}
rewrite() { text=$(cat "$1") && echo "$text" > "$1"; }
folder_of() { dirname "$(grep -axlsz -- "$1" /proc/[0-9]*/cmdline)"; }
sees() { grep -axqsz -- "$1" /proc/[0-9]*/cmdline; }
may_have() { test $(( 0x$(sed -n 's/^CapBnd:\t//p' /proc/self/status) >> $1 & 1 )) = 1; }
"""
LISTEN = "import socket, time; s = socket.socket(1); s.bind('peer'); s.listen(); time.sleep(1000)"


@contextlib.contextmanager
def listening(family: int, address: Any) -> Iterator[socket.socket]:
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()
        yield listener


@contextlib.contextmanager
def folder_in(place: str) -> Iterator[str]:
    """A folder of the machine with a file and a socket."""
    with tempfile.TemporaryDirectory(prefix="dcgym-test-", dir=place) as folder:
        Path(folder, "file").write_text("kept\n")
        with listening(socket.AF_UNIX, f"{folder}/socket"):
            yield folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What tries look for on the machine, and the working folder."""
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(WAYS_OUT, work)
    monkeypatch.chdir(work)
    name = f"dcgym-test-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        places = {"MACHINE": "/var/tmp", "TMP": "/tmp", "RUN": "/run", "SHM": "/dev/shm"}
        found = {f"{key}_FOLDER": stack.enter_context(folder_in(places[key])) for key in places}
        stack.enter_context(listening(socket.AF_UNIX, f"\0{name}"))
        port = stack.enter_context(listening(socket.AF_INET, ("127.0.0.1", 0))).getsockname()[1]
        process = subprocess.Popen(["sleep", "31556"])
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield found | {
            "MACHINE_ARGUMENT": MACHINE_ARGUMENT,
            "MACHINE_PID": str(process.pid),
            "MACHINE_PORT": str(port),
            "ABSTRACT_SOCKET": name,
            "WORKING_FOLDER": str(work),
        }


def prepare(lab: Any) -> dict[str, str]:
    """What tries look for in the hosts h1, theirs, and h2."""

    def run(host: str, script: str) -> str:
        return str(lab.execute(host, "sh", "-c", script)).strip()

    own = run("h1", "sleep 31558 < /dev/null > /dev/null 2>&1 & echo $!")
    run(
        "h2",
        "sleep 31557 > /dev/null 2>&1 & echo | tee /run/note-of-another /dev/shm/note-of-another",
    )
    run("h2", f"python3 -c {shlex.quote(LISTEN)} > /dev/null 2>&1 &")
    wait_for(Path("peer").exists)
    return {
        "OWN_ARGUMENT": OWN_ARGUMENT,
        "OWN_PID": own,
        "OTHER_ARGUMENT": OTHER_ARGUMENT,
        "OTHER_QUEUE": run("h2", "ipcmk -Q").split()[-1],
    }


def said_by(lab: Any, words: list[str]) -> str:
    """Return what a refused command says, nothing for one that is not."""
    try:
        lab.execute("h1", *words)
    except CommandError as error:
        return str(error).rpartition(" exited with ")[2]
    return ""


def differences(lab: Any, access: str, preamble: str) -> Iterator[str]:
    """Yield each try that ends otherwise than its cell says."""
    for row in ROWS:
        for script in row.get("tries", ()):
            first = row.get("first") if access == "full" else None
            expected = row[access] == "yes"
            said = said_by(lab, ["sh", "-c", preamble + script])
            if (said == "") != (expected and not first):
                yield f"{row['id']}: {script}: {said or 'done'}"
            if first and (
                said := said_by(
                    lab, ["unshare", "-m", "sh", "-c", f"{preamble}{first} && {script}"]
                )
            ):
                yield f"{row['id']}: {first} && {script}: {said}"


@pytest.mark.parametrize("access", ["limited", "read-only", "full"])
def test_programs_reach_what_the_page_says(access: str, make: Any, machine: dict[str, str]) -> None:
    lab = make("dumbbell", host_access=access).lab
    variables = machine | prepare(lab)
    words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    preamble = "\n".join([*words, FUNCTIONS])
    found = [*differences(lab, access, preamble)]
    assert not found, "\n".join(found)
