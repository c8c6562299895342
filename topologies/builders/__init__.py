"""Functions that build topologies."""
