"""What BPF can do on this machine: objects are loaded, and closed at once."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from dcgym.cli.doctor.check import Check, present

__all__ = ["check_bpf"]

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE, BPF_PROG_LOAD = 0, 5
BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE = 2, 1 << 10
BPF_PROG_TYPE_SCHED_CLS = 3


def check_bpf() -> list[Check]:
    """Try to load a BPF program and a map."""
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
        present("bpf", "BTF", has_btf, True, fabric, "a kernel with CONFIG_DEBUG_INFO_BTF"),
        present(
            "bpf",
            "struct_ops for TCP",
            struct_ops,
            False,
            "no DCTCP or New Vegas where the kernel has no module of them",
            "a kernel with CONFIG_BPF_JIT and BTF",
        ),
    ]


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
