"""Learners of Stable-Baselines3."""
