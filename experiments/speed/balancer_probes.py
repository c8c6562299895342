"""The probes that a balancer's program asks for, read in place of the thread that sends them."""

from __future__ import annotations

import ctypes
import struct

from dcgym.errors import BackendError

__all__ = ["ProbeRing"]

# struct dcgym_lb_probe: serial number, VIP, server.
PROBE = struct.Struct("=QII")
_TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class ProbeRing:
    """A reader of the ring buffer of probes, by libbpf.

    Args:
        probe_map_fd: Descriptor of the ring buffer; it may be closed afterwards.

    Raises:
        BackendError: The ring buffer cannot be mapped.
    """

    def __init__(self, probe_map_fd: int) -> None:
        self._library = ctypes.CDLL("libbpf.so.1")
        self._library.ring_buffer__new.restype = ctypes.c_void_p
        self._found: list[tuple[int, int]] = []
        # libbpf calls it for as long as the ring lives.
        self._callback = _TAKE(self._add)
        self._ring = self._library.ring_buffer__new(probe_map_fd, self._callback, None, None)
        if not self._ring:
            raise BackendError("cannot read the balancer's probes")

    def take(self) -> list[tuple[int, int]]:
        """Return the serial number and the server of each probe since the last call."""
        self._library.ring_buffer__consume(ctypes.c_void_p(self._ring))
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        """Unmap the ring buffer."""
        self._library.ring_buffer__free(ctypes.c_void_p(self._ring))

    def _add(self, _context: int | None, data: int | None, n_bytes: int) -> int:
        serial, _, server = PROBE.unpack(ctypes.string_at(data or 0, n_bytes)[: PROBE.size])
        self._found.append((serial, server))
        return 0
