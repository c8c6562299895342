"""Privileges, devices, qdiscs and congestion control of the kernel."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

from dcgym.backends.emulation.session.process import is_initial_user_namespace
from dcgym.cli.doctor.check import Check, present
from dcgym.errors import DcgymError
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl

__all__ = ["check_congestion_control", "check_kernel", "check_privileges", "check_version"]

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}
# What needs which Linux: (name, version, whether it is required, cost, what came with it).
VERSIONS = (
    ("version", (6, 4), True, "no eBPF fabric", "links of struct_ops, kfuncs for tc"),
    ("version for pools", (6, 6), False, "no LoadBalancing on real packets", "tcx links"),
    (
        "version for transports",
        (6, 10),
        False,
        "no congestion control as BPF, no FlowControl on real TCP",
        "cong_control of struct_ops",
    ),
)
PROBE_TIMEOUT_S = 15

# Each line prints "<name> <status>"; all of it runs in namespaces of its own.
KERNEL_PROBE = """
try() { name=$1; shift; "$@" >/dev/null 2>&1; echo "$name $?"; }
try namespaces unshare --mount --pid --ipc --uts --fork true
try bpffs unshare --mount sh -c 'mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf'
try veth ip link add dcg0 type veth peer name dcg1
try tbf tc qdisc add dev dcg0 root tbf rate 10mbit burst 5000 limit 400000
tc qdisc del dev dcg0 root >/dev/null 2>&1
try clsact tc qdisc add dev dcg0 clsact
for kind in red fq prio; do
  case $kind in red) options="limit 400000 avpkt 1000";; *) options="";; esac
  try $kind tc qdisc add dev dcg0 root $kind $options
  tc qdisc del dev dcg0 root >/dev/null 2>&1
done
try tun ip tuntap add dev dcg2 mode tap
try netem tc qdisc add dev dcg0 root netem delay 1ms
"""


def check_privileges() -> list[Check]:
    """Look for the capabilities that emulation needs."""
    held = _effective_capabilities()
    remedy = "run as root (sudo), or in a privileged container"
    checks = []
    for name, bit in CAPABILITIES.items():
        ok = bool(held >> bit & 1)
        found = "held" if ok else "not held"
        checks.append(Check("privileges", name, ok, found, True, "no emulation", remedy))
    return [*checks, _user_namespace()]


def _user_namespace() -> Check:
    """Tell whether we are in the machine's own user namespace: no other one may load BPF."""
    ok = is_initial_user_namespace()
    found = "the machine's own" if ok else "another one"
    remedy = "root of the machine, or of a container that is not rootless"
    return Check("privileges", "user namespace", ok, found, True, "no emulation", remedy)


def _effective_capabilities() -> int:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.M)
    return int(match.group(1), 16) if match else 0


def check_kernel() -> list[Check]:
    """Try the kernel's devices and qdiscs, in a namespace of their own."""
    probed, reason = _probe_namespace()
    rows = [
        ("namespaces", True, "no emulation", "CONFIG_NET_NS, PID_NS, IPC_NS, UTS_NS"),
        ("bpffs", True, "no emulation", "CONFIG_BPF_SYSCALL, and privileges"),
        ("veth", True, "no emulation", "a kernel with CONFIG_VETH"),
        ("tbf", True, "no rate limits and no byte queues", "a kernel with CONFIG_NET_SCH_TBF"),
        ("clsact", True, "no eBPF fabric", "a kernel with CONFIG_NET_SCH_INGRESS"),
        ("red", False, "nothing: marking is done in BPF", "a kernel with CONFIG_NET_SCH_RED"),
        ("fq", False, "nothing: BBR paces in TCP itself", "a kernel with CONFIG_NET_SCH_FQ"),
        ("prio", False, "nothing today", "a kernel with CONFIG_NET_SCH_PRIO"),
        (
            "tun",
            False,
            "no emulated links with a delay",
            "CONFIG_TUN, and /dev/net/tun",
        ),
        ("netem", False, "nothing: a relay delays links", "a kernel with CONFIG_NET_SCH_NETEM"),
    ]
    checks = check_version(platform.release())
    for name, required, cost, remedy in rows:
        ok = probed.get(name) == 0
        found = "works" if ok else reason or "not in this kernel"
        checks.append(Check("kernel", name, ok, found, required, cost, remedy))
    module = _has_module("openvswitch")
    found = "present" if module else "not in this kernel"
    cost = "Open vSwitch runs in user space, about 25 times slower"
    checks.append(
        Check("kernel", "openvswitch module", module, found, False, cost, "modprobe openvswitch")
    )
    pressure = Path("/proc/pressure/cpu").exists()
    cost, remedy = "fidelity does not see waits for processors", "a kernel with CONFIG_PSI"
    checks.append(present("kernel", "pressure", pressure, False, cost, remedy))
    filters = Path("/proc/sys/kernel/seccomp/actions_avail").exists()
    cost, remedy = "hosts with full access alone", "a kernel with CONFIG_SECCOMP_FILTER"
    return [*checks, present("kernel", "seccomp", filters, True, cost, remedy)]


def check_version(release: str) -> list[Check]:
    """Compare a kernel's release with what each part needs.

    Args:
        release: As ``uname -r`` prints it.
    """
    found = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return [
        Check(
            "kernel",
            name,
            found >= needed,
            release,
            required,
            cost,
            f"Linux {needed[0]}.{needed[1]} or newer ({what})",
        )
        for name, needed, required, cost, what in VERSIONS
    ]


def _probe_namespace() -> tuple[dict[str, int], str]:
    """Try the kernel's devices and qdiscs; return status by name and why nothing could be tried."""
    missing = [tool for tool in ("unshare", "ip", "tc") if not shutil.which(tool)]
    if missing:
        return {}, f"cannot be tried without {', '.join(missing)}"
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", KERNEL_PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}, f"the probe hung for {PROBE_TIMEOUT_S} s"
    if done.returncode != 0 and not done.stdout:
        return {}, "cannot be tried without root"
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: int(status) for name, status in pairs}, ""


def check_congestion_control() -> list[Check]:
    """Look for the kernel's congestion control."""
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    loaded = set(path.read_text().split()) if path.exists() else set()
    group, checks = "congestion control", []
    for policy in CONGESTION_CONTROLS.names():
        control = CONGESTION_CONTROLS[policy]
        if control.is_in_linux:
            name = control.kernel_name
            ok = name in loaded or _has_module(f"tcp_{name}")
            has_own = f"nothing: {policy} comes as BPF struct_ops"
            cost = has_own if control.program else f"no policy {policy!r}"
            remedy = f"modprobe tcp_{name}"
            checks.append(present(group, name, ok, name == "cubic", cost, remedy))
        elif control.is_header:
            checks.append(_check_header(policy, control))
    return checks


def _check_header(policy: str, control: CongestionControl) -> Check:
    """Compile another package's congestion control for the kernel and for the twin."""
    found, ok = "compiled", True
    try:
        control.object_path()
        control.functions()
    except DcgymError as error:
        found, ok = str(error), False
    remedy = "apt-get install clang libbpf-dev gcc; the header as window_control.h says"
    return Check("congestion control", policy, ok, found, False, f"no policy {policy!r}", remedy)


def _has_module(name: str) -> bool:
    if Path("/sys/module", name).exists():
        return True
    modinfo = shutil.which("modinfo") or "/sbin/modinfo"
    if not Path(modinfo).exists():
        return False
    return subprocess.run([modinfo, name], capture_output=True, check=False).returncode == 0
