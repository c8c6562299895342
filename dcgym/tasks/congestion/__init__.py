"""How fast each host may send."""

# What it registers is known wherever the task is.
import dcgym.tasks.congestion.presets
import dcgym.tasks.congestion.splits  # noqa: F401
