"""Rates and paths in one action."""
