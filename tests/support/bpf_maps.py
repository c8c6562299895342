"""Maps of loaded BPF programs by name, for what no other interface writes."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["OwnMap"]


class MapInfo(ctypes.Structure):
    """The first fields of struct bpf_map_info (linux/bpf.h)."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("name", ctypes.c_char * 16),
    ]


class OwnMap:
    """The latest map of a name among the descriptors of this process, by libbpf."""

    def __init__(self, name: str) -> None:
        library = ctypes.util.find_library("bpf")
        assert library is not None, "libbpf is not installed"
        self._bpf = ctypes.CDLL(library, use_errno=True)
        found = [(fd, info) for fd, info in self._maps() if info.name.decode() == name]
        assert found, f"this process has no map {name}"
        self._fd, self._info = max(found, key=lambda one: one[1].id)

    def items(self) -> list[tuple[bytes, bytes]]:
        """Return all keys with their values."""
        keys: list[bytes] = []
        memory = ctypes.create_string_buffer(self._info.key_size)
        while not self._bpf.bpf_map_get_next_key(self._fd, keys[-1] if keys else None, memory):
            keys.append(memory.raw)
        return [(key, self.read(key)) for key in keys]

    def read(self, key: bytes) -> bytes:
        """Return the value of a key."""
        memory = ctypes.create_string_buffer(self._info.value_size)
        assert self._bpf.bpf_map_lookup_elem(self._fd, key, memory) == 0
        return memory.raw

    def write(self, key: bytes, value: bytes) -> None:
        """Replace the value of a key."""
        assert len(value) == self._info.value_size
        assert self._bpf.bpf_map_update_elem(self._fd, key, value, 0) == 0

    def _maps(self) -> Iterator[tuple[int, MapInfo]]:
        for link in Path("/proc/self/fd").iterdir():
            fd, info = int(link.name), MapInfo()
            size = ctypes.c_uint32(ctypes.sizeof(info))
            is_map = os.path.lexists(link) and "bpf-map" in os.readlink(link)
            if is_map and not self._bpf.bpf_obj_get_info_by_fd(
                fd, ctypes.byref(info), ctypes.byref(size)
            ):
                yield fd, info
