"""Where tasks run: the contract of backends, and the backends."""

# Each entry registers its backends.
import dcgym.backends.emulation.entry
import dcgym.backends.simulation.entry  # noqa: F401
