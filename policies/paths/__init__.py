"""Policies that weigh equal-cost paths."""
