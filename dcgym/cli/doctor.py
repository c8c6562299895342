"""What this machine can do: privileges, kernel features, tools, packages, memory.

Every probe is harmless: kernel features are tried in a network namespace of their own that goes
away with the probing process, and BPF objects are closed at once.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from dcgym import native
from dcgym.traffic.generators.tools import find_tool

__all__ = ["Check", "can_emulate", "examine", "to_records"]

MININET_FOLDER = Path("/usr/lib/python3/dist-packages/mininet")
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}
BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE, BPF_PROG_LOAD = 0, 5
BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE = 2, 1 << 10
BPF_PROG_TYPE_SCHED_CLS = 3
PROBE_TIMEOUT_S = 15

# Each line prints "<name> <status>"; all of it runs in one namespace of its own.
KERNEL_PROBE = """
try() { name=$1; shift; "$@" >/dev/null 2>&1; echo "$name $?"; }
try veth ip link add dcg0 type veth peer name dcg1
try tbf tc qdisc add dev dcg0 root tbf rate 10mbit burst 5000 limit 400000
tc qdisc del dev dcg0 root >/dev/null 2>&1
try clsact tc qdisc add dev dcg0 clsact
for kind in red fq prio; do
  case $kind in red) options="limit 400000 avpkt 1000";; *) options="";; esac
  try $kind tc qdisc add dev dcg0 root $kind $options
  tc qdisc del dev dcg0 root >/dev/null 2>&1
done
try netem tc qdisc add dev dcg0 root netem delay 1ms
"""


@dataclass(frozen=True)
class Check:
    """One line of the examination.

    Attributes:
        group: Heading the line belongs to.
        name: What was looked for.
        ok: Whether it is there.
        found: Version, amount or reason.
        required: Whether emulation cannot run without it.
        cost: What is lost while it is missing.
        remedy: How to get it.
    """

    group: str
    name: str
    ok: bool
    found: str
    required: bool
    cost: str
    remedy: str


def examine() -> list[Check]:
    """Run every probe and return the results in the order of the table."""
    groups: Iterable[Callable[[], list[Check]]] = (
        _privileges,
        _kernel,
        _bpf,
        _congestion_control,
        _tools,
        _native_parts,
        _packages,
        _resources,
    )
    return [check for group in groups for check in group()]


def can_emulate(checks: Iterable[Check]) -> bool:
    """Tell whether nothing that emulation requires is missing."""
    return all(check.ok for check in checks if check.required)


def to_records(checks: Iterable[Check]) -> list[dict[str, object]]:
    """Turn the checks into plain dictionaries for ``--json``."""
    return [asdict(check) for check in checks]


def _privileges() -> list[Check]:
    held = _effective_capabilities()
    remedy = "run as root (sudo), or in a privileged container"
    checks = []
    for name, bit in CAPABILITIES.items():
        ok = bool(held >> bit & 1)
        found = "held" if ok else "not held"
        checks.append(Check("privileges", name, ok, found, True, "no emulation", remedy))
    return checks


def _effective_capabilities() -> int:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.M)
    return int(match.group(1), 16) if match else 0


def _kernel() -> list[Check]:
    probed, reason = _probe_namespace()
    rows = [
        ("veth", True, "no emulation", "a kernel with CONFIG_VETH"),
        ("tbf", True, "no rate limits and no byte queues", "a kernel with CONFIG_NET_SCH_TBF"),
        ("clsact", True, "no eBPF fabric", "a kernel with CONFIG_NET_SCH_INGRESS"),
        ("red", False, "nothing: marking is done in BPF", "a kernel with CONFIG_NET_SCH_RED"),
        ("fq", False, "nothing: BBR paces in TCP itself", "a kernel with CONFIG_NET_SCH_FQ"),
        ("prio", False, "nothing today", "a kernel with CONFIG_NET_SCH_PRIO"),
        ("netem", False, "nothing: links delay nothing", "a kernel with CONFIG_NET_SCH_NETEM"),
    ]
    checks = [_release()]
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
    return checks


def _release() -> Check:
    release = platform.release()
    numbers = re.findall(r"\d+", release)
    version = tuple(int(n) for n in numbers[:2])
    remedy = "Linux 6.4 or newer (links of struct_ops, kfuncs for tc)"
    return Check("kernel", "version", version >= (6, 4), release, True, "no eBPF fabric", remedy)


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
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}, f"the probe hung for {PROBE_TIMEOUT_S} s"
    if done.returncode != 0 and not done.stdout:
        return {}, "cannot be tried without root"
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: int(status) for name, status in pairs}, ""


def _has_module(name: str) -> bool:
    if Path("/sys/module", name).exists():
        return True
    modinfo = shutil.which("modinfo") or "/sbin/modinfo"
    if not Path(modinfo).exists():
        return False
    return subprocess.run([modinfo, name], capture_output=True, check=False).returncode == 0


def _bpf() -> list[Check]:
    btf = Path("/sys/kernel/btf/vmlinux")
    has_btf = btf.exists()
    struct_ops = has_btf and b"bpf_struct_ops_tcp_congestion_ops" in btf.read_bytes()
    program, program_reason = _try_program()
    array, array_reason = _try_mmapable_map()
    fabric = "no eBPF fabric"
    config = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF"
    return [
        Check("bpf", "tc program", program, program_reason, True, fabric, config),
        Check("bpf", "mmapable map", array, array_reason, True, "no shared counters", config),
        _present("bpf", "BTF", has_btf, True, fabric, "a kernel with CONFIG_DEBUG_INFO_BTF"),
        _present(
            "bpf",
            "struct_ops for TCP",
            struct_ops,
            False,
            "no DCTCP or New Vegas where the kernel has no module of them",
            "a kernel with CONFIG_BPF_JIT and BTF",
        ),
    ]


def _present(group: str, name: str, ok: bool, required: bool, cost: str, remedy: str) -> Check:
    found = "present" if ok else "missing"
    return Check(group, name, ok, found, required, cost, remedy)


def _bpf_call(command: int, attributes: bytes) -> tuple[bool, str]:
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        return False, f"cannot be tried on {platform.machine()}"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
    libc.syscall.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    descriptor = libc.syscall(number, command, ctypes.addressof(buffer), len(attributes))
    if descriptor < 0:
        return False, os.strerror(ctypes.get_errno())
    os.close(descriptor)
    return True, "works"


def _try_program() -> tuple[bool, str]:
    # mov r0, 0; exit
    code = ctypes.create_string_buffer(bytes.fromhex("b7000000000000009500000000000000"), 16)
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = b"".join(
        (
            BPF_PROG_TYPE_SCHED_CLS.to_bytes(4, "little"),
            (2).to_bytes(4, "little"),
            ctypes.addressof(code).to_bytes(8, "little"),
            ctypes.addressof(licence).to_bytes(8, "little"),
            bytes(24),
        )
    )
    return _bpf_call(BPF_PROG_LOAD, attributes)


def _try_mmapable_map() -> tuple[bool, str]:
    fields = (BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE)
    return _bpf_call(BPF_MAP_CREATE, b"".join(field.to_bytes(4, "little") for field in fields))


def _congestion_control() -> list[Check]:
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    loaded = set(path.read_text().split()) if path.exists() else set()
    costs = {
        "cubic": "no policy 'cubic'",
        "reno": "no policy 'reno'",
        "bbr": "no policy 'bbr'",
        "dctcp": "nothing: DCTCP comes as BPF struct_ops",
        "nv": "nothing: New Vegas comes as BPF struct_ops",
    }
    checks = []
    for name, cost in costs.items():
        ok = name in loaded or _has_module(f"tcp_{name}")
        remedy = f"modprobe tcp_{name}"
        checks.append(_present("congestion control", name, ok, name == "cubic", cost, remedy))
    return checks


def _tools() -> list[Check]:
    rows = [
        ("ip", ["ip", "-V"], True, "no emulation", "iproute2"),
        ("tc", ["tc", "-V"], True, "no emulation", "iproute2"),
        ("unshare", ["unshare", "--version"], True, "no emulation", "util-linux"),
        ("mnexec", None, True, "no Mininet hosts", "mininet"),
        ("ethtool", ["ethtool", "--version"], True, "no control of offloads", "ethtool"),
        (
            "ovs-vswitchd",
            ["ovs-vswitchd", "--version"],
            False,
            "no OVSSwitch",
            "openvswitch-switch",
        ),
        ("clang", ["clang", "--version"], False, "BPF objects cannot be built", "clang llvm"),
        ("g++", ["g++", "--version"], False, "native parts cannot be built", "g++"),
        ("bpftool", ["bpftool", "version"], False, "no look into BPF objects", "bpftool"),
        ("ping", None, False, "no ping matrix in tests", "iputils-ping"),
        ("curl", ["curl", "--version"], False, "no curl test of the HTTP servers", "curl"),
        ("wrk", None, False, "no wrk test of the HTTP servers", "wrk"),
        (
            "iperf3",
            ["iperf3", "--version"],
            False,
            "no iperf3 generator",
            "iperf3",
        ),
    ]
    checks = [_mininet()]
    for name, command, required, cost, package in rows:
        path = _which(name)
        found = "not found" if path is None else _version(command, path)
        remedy = f"apt-get install {package}"
        checks.append(Check("tools", name, path is not None, found, required, cost, remedy))
    goben = "found" if _which("goben") else "not found"
    is_found, remedy = goben == "found", find_tool("goben").hint
    cost = "no goben generator"
    checks.append(Check("tools", "goben", is_found, goben, False, cost, remedy))
    return checks


def _which(name: str) -> str | None:
    folders = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin:/sbin"
    return shutil.which(name, path=folders)


def _version(command: list[str] | None, path: str) -> str:
    if command is None:
        return "found"
    try:
        done = subprocess.run(
            [path, *command[1:]], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    match = re.search(r"\d+(\.\d+)+\S*", done.stdout + done.stderr)
    return match.group(0).rstrip(",)") if match else "found"


def _mininet() -> Check:
    ok = MININET_FOLDER.exists() or importlib.util.find_spec("mininet") is not None
    found = "found" if ok else "not found"
    return Check(
        "tools", "mininet (Python)", ok, found, True, "no emulation", "apt-get install mininet"
    )


def _native_parts() -> list[Check]:
    missing = native.missing_parts()
    names = ("_native", "_simulation", *native.BPF_OBJECTS, "dcgym-generator")
    costs = {
        "_simulation": "no simulated load balancing",
        "dctcp": "no policy 'dctcp' where the kernel has no module",
        "new_vegas": "no policy 'new-vegas' where the kernel has no module",
    }
    return [
        Check(
            "native parts",
            name,
            name not in missing,
            "not built" if name in missing else "built",
            name not in costs,
            costs.get(name, "no emulation"),
            native.SIMULATION_HINT if name == "_simulation" else native.HINT,
        )
        for name in names
    ]


def _packages() -> list[Check]:
    rows = [
        ("ray", "no policy 'ppo'", "rllib"),
        ("torch", "no learned policies", "rllib"),
        ("stable-baselines3", "no policy 'ddpg'", "sb3"),
        ("plotly", "no report.html", "report"),
        ("matplotlib", "no drawing of topologies", "report"),
    ]
    checks = []
    for name, cost, extra in rows:
        version = _package_version(name)
        remedy = f"pip install 'dcgym[{extra}]'"
        ok = version is not None
        checks.append(Check("packages", name, ok, version or "not found", False, cost, remedy))
    return checks


def _package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _resources() -> list[Check]:
    match = re.search(r"^MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text(), re.M)
    free_bytes = int(match.group(1)) * 1024 if match else 0
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    cores = len(os.sched_getaffinity(0))
    return [
        Check(
            "resources",
            "free memory",
            free_bytes >= 2**30,
            f"{free_bytes / 2**30:.1f} GiB",
            False,
            "large networks and PPO may run out of memory",
            "1 GiB for emulation, 4 GiB with PPO",
        ),
        Check(
            "resources",
            "shared memory",
            shared >= 2**26,
            f"{shared / 2**20:.0f} MiB",
            False,
            "PPO's workers may fail to start",
            "a larger /dev/shm (docker: --shm-size=2g)",
        ),
        Check(
            "resources",
            "cores",
            cores >= 2,
            str(cores),
            False,
            "the emulation may miss its deadlines; runs say so",
            "2 cores or more",
        ),
    ]
