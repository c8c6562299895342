"""The command line, with trainings that write what they keep ten times a second.

A policy is written every ten seconds and a state every minute otherwise: no kill would meet them.
"""

from __future__ import annotations

import sys

from dcgym.cli import main
from dcgym.policies.learned import training

KEEP_EVERY_S = 0.1

if __name__ == "__main__":
    training.KEEP_EVERY_S = training.STATE_EVERY_S = KEEP_EVERY_S
    main(sys.argv[1:])
