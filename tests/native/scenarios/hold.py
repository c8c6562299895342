"""Register DCTCP under the name given as argument, say so, and wait to be killed."""

from __future__ import annotations

import sys
import time

from dcgym.native import bpf_object, require

control = require().load_congestion_control(str(bpf_object("dctcp")), sys.argv[1])
print("ready", flush=True)
time.sleep(60)
