"""How fast each host may send."""

# What it registers is known wherever the task is.
import dcgym.tasks.congestion.presets  # noqa: F401
