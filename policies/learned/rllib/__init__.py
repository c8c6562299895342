"""Learners of Ray RLlib."""
