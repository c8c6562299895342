"""Policies that limit sending rates."""
