"""Learners of our own, which need little or no library."""
