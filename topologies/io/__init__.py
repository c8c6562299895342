"""Topologies outside of Python: files, NetworkX graphs and pictures."""
