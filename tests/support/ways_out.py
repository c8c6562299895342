"""Try what leads from an emulated host to the machine, and print what the kernel answers.

Runs inside a host with the names of ways, or none for all of `WAYS`. It prints a JSON object: the
name of the error by way, "done" for none. With names it fails if one is refused.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import signal
import socket
import struct
import sys
import termios
from collections.abc import Callable

NEW_USER = 0x1000_0000  # CLONE_NEWUSER of linux/sched.h
HIGH = 1 << 32  # a bit that the kernel does not see in an int argument
VSOCK, ALG = 40, 38
AUDIT, CONNECTOR = 9, 11
TIOCLINUX = 0x541C
SO_PEERPIDFD = 77
PIDFD_GET_NET_NAMESPACE = 0xFF04
# linux/netlink.h, linux/rtnetlink.h, linux/if_link.h
NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 1, 4, 0x200, 0x400
RTM_NEWLINK, RTM_DELLINK = 16, 17
IFLA_IFNAME, IFLA_LINKINFO, IFLA_TARGET_NETNSID, IFLA_INFO_KIND = 3, 18, 46, 1
PEER = "peer"  # path of a socket that somebody else listens at

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "add_key": 248, "request_key": 249, "keyctl": 250}
    | {"perf_event_open": 298, "bpf": 321, "setns": 308, "unshare": 272, "socket": 41, "mount": 165}
    | {"umount2": 166, "fork": 57},
    "aarch64": {"clone": 220, "pivot_root": 41, "add_key": 217, "request_key": 218, "keyctl": 219}
    | {"perf_event_open": 241, "bpf": 280, "setns": 268, "unshare": 97, "socket": 198, "mount": 40}
    | {"umount2": 39},
}[platform.machine()] | {
    # Since Linux 5.0 the same everywhere.
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432},
    **{"fspick": 433, "mount_setattr": 442, "pidfd_send_signal": 424, "pidfd_getfd": 438},
}


def call(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call with whole registers."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(LIBC.syscall(ctypes.c_long(NUMBERS[name]), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def in_child(act: Callable[[], object]) -> None:
    """Do something in a child; raises its error."""
    pid = os.fork()
    if not pid:
        code = 0
        try:
            act()
        except OSError as error:
            code = error.errno or 255
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "in the child")


def clone(number: str, *arguments: int | bytes) -> None:
    """Clone as `fork` does, with other flags; the child ends at once."""
    pid = call(number, *arguments)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def type_into_terminal(request: int, argument: bytes) -> None:
    """Put a character into the input of the terminal."""
    _, follower = os.openpty()
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    fcntl.ioctl(follower, request, argument)


def unshare_as_32_bit() -> None:
    """Make a user namespace by the system call of 32-bit programs, i386's `unshare`."""
    code = bytes.fromhex("53 b8 36 01 00 00 bb 00 00 00 10 cd 80 5b c3")
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(code)
        view = (ctypes.c_char * 4096).from_buffer(memory)
        result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(view))()
        del view
    if result < 0:
        raise OSError(-result, "unshare")


def pidfd_of_peer() -> int:
    """Return a descriptor of the process that listens at `PEER`, whoever's it is."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(PEER)
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)


def change_links(request: int, flags: int, *attributes: bytes) -> None:
    """Ask the kernel to make or remove a link in the network namespace that is number 0 here."""
    body = bytes(16) + b"".join(attributes) + attribute(IFLA_TARGET_NETNSID, bytes(4))
    flags |= NLM_F_REQUEST | NLM_F_ACK
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as routes:
        routes.send(struct.pack("IHHII", 16 + len(body), request, flags, 1, 0) + body)
        (error,) = struct.unpack_from("i", routes.recv(1 << 16), 16)
    if error:
        raise OSError(-error, "netlink")


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute of netlink, whose value takes whole words."""
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def make_link_beside_switches() -> None:
    """Make a pair of links, one of them where the other end of the host's own link is."""
    name = attribute(IFLA_IFNAME, b"dcgym-test\0")
    kind = attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"veth"))
    change_links(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name, kind)
    change_links(RTM_DELLINK, 0, name)


# BPF_MAP_CREATE of an array: its type, two sizes, entries.
BPF_ARRAY = b"".join(word.to_bytes(4, "little") for word in (2, 4, 4, 1)).ljust(128, b"\0")
SOFTWARE_CLOCK = b"\1".ljust(128, b"\0")  # struct perf_event_attr
CLONE3_ARGUMENTS = b"".join(
    word.to_bytes(8, "little") for word in (NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
)
WAYS: dict[str, Callable[[], object]] = {
    "unshare": lambda: in_child(lambda: call("unshare", NEW_USER)),
    "clone": lambda: clone("clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda: clone("clone3", CLONE3_ARGUMENTS, len(CLONE3_ARGUMENTS)),
    "setns": lambda: call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0),
    "mount": lambda: in_child(lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None)),
    "umount2": lambda: call("umount2", b"/proc/sys", 0),
    "pivot_root": lambda: call("pivot_root", b"/mnt", b"/mnt"),
    "open_tree": lambda: call("open_tree", -100, b"/", 1),
    "move_mount": lambda: call("move_mount", -100, b"/mnt", -100, b"/mnt", 0),
    "fsopen": lambda: call("fsopen", b"tmpfs", 0),
    "fsconfig": lambda: call("fsconfig", 0, 6, None, None, 0),
    "fsmount": lambda: call("fsmount", 0, 0, 0),
    "fspick": lambda: call("fspick", -100, b"/", 0),
    "mount_setattr": lambda: call("mount_setattr", -100, b"/mnt", 0, None, 0),
    "add_key": lambda: call("add_key", b"user", b"dcgym", b"x", 1, -1),
    "request_key": lambda: call("request_key", b"user", b"dcgym", None, -1),
    "keyctl": lambda: call("keyctl", 0, -4, 0),
    "bpf": lambda: call("bpf", 0, BPF_ARRAY, 128),
    "perf_event_open": lambda: call("perf_event_open", SOFTWARE_CLOCK, 0, -1, -1, 0),
    "io_uring_setup": lambda: call("io_uring_setup", 1, b"\0" * 128),
    "io_uring_enter": lambda: call("io_uring_enter", 0, 0, 0, 0, None, 0),
    "io_uring_register": lambda: call("io_uring_register", 0, 0, None, 0),
    "AF_VSOCK": lambda: call("socket", VSOCK, socket.SOCK_STREAM, 0),
    "AF_VSOCK in an int": lambda: call("socket", VSOCK | HIGH, socket.SOCK_STREAM, 0),
    "AF_ALG": lambda: call("socket", ALG, socket.SOCK_SEQPACKET, 0),
    "family 1000": lambda: call("socket", 1000, socket.SOCK_STREAM, 0),
    "NETLINK_AUDIT": lambda: call("socket", socket.AF_NETLINK, socket.SOCK_RAW, AUDIT),
    "NETLINK_CONNECTOR": lambda: call(
        "socket", socket.AF_NETLINK | HIGH, socket.SOCK_RAW, CONNECTOR | HIGH
    ),
    "SO_PASSPIDFD": lambda: socket.socket(socket.AF_UNIX).setsockopt(socket.SOL_SOCKET, 76, 1),
    "SO_PEERPIDFD": lambda: socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, 77, 4),
    "write of sysfs": lambda: os.open("/sys/class/net/lo/mtu", os.O_WRONLY),
    "TIOCSTI": lambda: in_child(lambda: type_into_terminal(termios.TIOCSTI, b"x")),
    "TIOCLINUX": lambda: in_child(lambda: type_into_terminal(TIOCLINUX, b"\2" * 16)),
}
if platform.machine() == "x86_64":
    WAYS["32-bit unshare"] = lambda: in_child(unshare_as_32_bit)

# What is a way only where a test has prepared it, or that no filter closes.
PREPARED: dict[str, Callable[[], object]] = {
    "signal of a peer": lambda: call("pidfd_send_signal", pidfd_of_peer(), 0, None, 0),
    "link of a switch": make_link_beside_switches,
    "network of a peer": lambda: fcntl.ioctl(pidfd_of_peer(), PIDFD_GET_NET_NAMESPACE),
    "descriptor of a peer": lambda: call("pidfd_getfd", pidfd_of_peer(), 0, 0),
}


def answer(way: Callable[[], object]) -> str:
    """Return the name of the error that a way ends in, or "done"."""
    try:
        way()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"


if __name__ == "__main__":
    named = sys.argv[1:]
    answers = {name: answer((WAYS | PREPARED)[name]) for name in named or WAYS}
    print(json.dumps(answers))
    sys.exit(bool(named) and set(answers.values()) != {"done"})
