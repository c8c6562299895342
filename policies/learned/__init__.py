"""Policies that are trained."""
