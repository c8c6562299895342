"""How each flow's window or rate changes: what Orca and Aurora decide."""

# Presets are registered on import.
import dcgym.tasks.flows.presets  # noqa: F401
