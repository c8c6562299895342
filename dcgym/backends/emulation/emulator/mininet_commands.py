"""Commands of Mininet's line that mean something else here, or need another program."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import mininet.cli
import mininet.net
import mininet.node
from mininet.cli import CLI
from mininet.log import lg, output

from dcgym.errors import BackendError

__all__ = ["NetworkCli"]

# Between the ports of the traffic's flows and those that the kernel hands out.
IPERF_PORT = 32_500
IPERF_SECONDS = 5
OPEN_FLOW = "OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15"


class NetworkCli(CLI):
    """Mininet's command line, in which no failure of a command ends the line.

    Attributes:
        code: Exit code of the last command.
    """

    code = 0

    def __init__(self, net: mininet.net.Mininet, **arguments: object) -> None:
        # Mininet logs what it refuses, and tells nobody else.
        for module in (mininet.cli, mininet.net, mininet.node):
            module.error = self._note_error
        super().__init__(net, **arguments)

    def onecmd(self, line: str) -> object:
        """Run one command; return whether it ends the line.

        Args:
            line: The command.
        """
        self.code = 0
        try:
            return super().onecmd(line)
        # Whatever a command of Mininet's raises: assertions, missing programs, wrong values.
        except Exception as error:
            reason = str(error) if isinstance(error, BackendError) else f"{error!r}"
            self._note_error(f"*** {line.split()[0]}: {reason}\n")
            return False

    def default(self, line: str) -> None:
        """Run a command at a node.

        Args:
            line: The node and the command.
        """
        node, _, command = line.strip().partition(" ")
        if node in self.mn and command.split()[:1] in (["exit"], ["logout"]):
            raise BackendError(f"that would end the shell of {node}; 'exit' alone leaves")
        super().default(line)

    def do_sh(self, line: str) -> None:
        """Run a command of the emulator's machine. Usage: sh COMMAND."""
        self.code = subprocess.call(line, shell=True)

    def do_switch(self, line: str) -> None:
        """Take all links of a switch down, or up again. Usage: switch NAME start|stop."""
        words = line.split()
        names = [switch.name for switch in self.mn.switches]
        if len(words) != 2 or words[0] not in names or words[1] not in ("start", "stop"):
            raise BackendError(f"usage: switch NAME start|stop, NAME of {', '.join(names)}")
        state = "up" if words[1] == "start" else "down"
        for interface in self.mn.get(words[0]).intfNames():
            if interface != "lo":
                _run("ip", "link", "set", "dev", interface, state)

    def do_dpctl(self, line: str) -> None:
        """Run ovs-ofctl at every switch. Usage: dpctl COMMAND [ARGUMENT ...]."""
        words = line.split()
        if not words:
            raise BackendError("usage: dpctl COMMAND [ARGUMENT ...], such as dpctl dump-flows")
        for switch in self.mn.switches:
            place = Path(f"/run/openvswitch/{switch.name}.mgmt")
            if not place.exists():
                allowed = "networks with switch: ovs; 'dcgym top' shows the ports of these"
                raise BackendError(f"eBPF switches have no OpenFlow tables; it is for {allowed}")
            output(f"*** {switch.name} {'-' * 72}\n")
            command = ["ovs-ofctl", "-O", OPEN_FLOW, words[0], f"unix:{place}", *words[1:]]
            output(_run(*command))

    def do_iperf(self, line: str) -> None:
        """Measure what TCP carries from one host to another. Usage: iperf [HOST HOST]."""
        self._measure(line.split(), [], "TCP")

    def do_iperfudp(self, line: str) -> None:
        """Measure what UDP carries at a rate. Usage: iperfudp [RATE HOST HOST], RATE as 10M."""
        rate, *hosts = line.split() or ["10M"]
        self._measure(hosts, ["-u", "-b", rate], "UDP")

    def _measure(self, names: list[str], options: list[str], transport: str) -> None:
        """Measure with iperf3: Mininet's own way waits for a line that newer iperfs never print."""
        known = [host.name for host in self.mn.hosts]
        names = names or [known[0], known[-1]]
        if len(names) != 2 or names[0] == names[1] or not {*names} <= {*known}:
            raise BackendError(f"it takes two hosts of {', '.join(known)}, or none")
        if shutil.which("iperf3") is None:
            raise BackendError("iperf3 is not installed; apt-get install iperf3")
        source, sink = (self.mn.get(name) for name in names)
        output(f"*** iperf3: {transport} from {source.name} to {sink.name}\n")
        place = ["-p", str(IPERF_PORT)]
        # One test, then it ends; it says that it listens.
        server = sink.popen(["iperf3", "-s", "-1", "--forceflush", *place])
        try:
            while b"listening" not in (said := server.stdout.readline()):
                if not said:
                    raise BackendError("iperf3 cannot listen: " + server.stderr.read().decode())
            given = ["-t", str(IPERF_SECONDS), *options, *place, "--json"]
            client = source.popen(["iperf3", "-c", sink.IP(), *given])
            report = json.loads(client.communicate()[0] or b"{}")
        finally:
            server.terminate()
            server.communicate()
        if "end" not in report or "error" in report:
            raise BackendError(f"iperf3: {report.get('error', 'no report')}")
        ends = report["end"]
        received = ends.get("sum_received") or ends["sum"]
        sent = ends.get("sum_sent") or ends["sum"]
        rates = [f"{end['bits_per_second'] / 1e6:.2f} Mbits/sec" for end in (received, sent)]
        output(f"*** Results: received {rates[0]}, sent {rates[1]}\n")

    def _note_error(self, text: str, *arguments: object) -> None:
        self.code = 1
        lg.error(text, *arguments)


def _run(*argv: str) -> str:
    """Run a program; what it says of a failure is the error."""
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise BackendError(f"{argv[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout
