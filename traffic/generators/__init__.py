"""Processes that carry a plan out."""
