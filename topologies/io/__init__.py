"""Topologies in files and pictures."""
