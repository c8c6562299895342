"""Experiments after Ruffy 2019."""
