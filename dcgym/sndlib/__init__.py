"""Network files of SNDlib, the library of survivable network design (sndlib.zib.de)."""

from dcgym.sndlib.network import (
    UNITS_BPS,
    SndlibDemand,
    SndlibLink,
    SndlibModule,
    SndlibNetwork,
    SndlibNode,
    read_sndlib,
    to_bps,
)

__all__ = [
    "UNITS_BPS",
    "SndlibDemand",
    "SndlibLink",
    "SndlibModule",
    "SndlibNetwork",
    "SndlibNode",
    "read_sndlib",
    "to_bps",
]
