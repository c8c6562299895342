"""Experiments of the sources."""
