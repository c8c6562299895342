"""Policies that steer single flows."""
