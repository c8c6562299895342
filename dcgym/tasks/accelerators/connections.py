"""How a balancer remembers which device a connection has."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_int, read_numbers

__all__ = ["EXACT", "ConnectionTable"]

MOST_CELLS = 2**20
# Hashes have 16 bits: a larger filter would tell them apart no better.
MOST_BLOOM_BITS = 2**24
MOST_BLOOM_HASHES = 16


@dataclass(frozen=True)
class ConnectionTable:
    """The connection table of P4Mite and P4Hauler, whose connections may share a cell.

    A cell is found by the CRC16 of the five-tuple, modulo the number of cells. A new connection
    whose cell is known goes where the cell says, in the place of what the rules say: it is
    inherited. A request is a connection of two packets: the second one comes with its end. One
    whose second packet would go elsewhere has lost its device. (Tajbakhsh 2023, sections 4.2, 5.3.)

    Attributes:
        cells: Registers of the table, 50,000 as published; 0 for a table in which every connection
            has an entry of its own.
        bloom_bits: Bits of the Bloom filter by which P4Mite tells known hashes from new ones; its
            table frees nothing. 0 for P4Hauler's way: a cell is known while it is in use, and the
            last packet frees it. The thesis does not say how large the filter is.
        bloom_hashes: Bits that a hash sets in it.
    """

    cells: int = 50_000
    bloom_bits: int = 0
    bloom_hashes: int = 2

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_int("connection_table.cells", self.cells, 0, MOST_CELLS)
        check_int("connection_table.bloom_bits", self.bloom_bits, 0, MOST_BLOOM_BITS)
        check_int("connection_table.bloom_hashes", self.bloom_hashes, 1, MOST_BLOOM_HASHES)


EXACT = ConnectionTable(cells=0)
"""Every connection has an entry of its own."""
