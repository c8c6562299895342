"""Environments: faces over a task and a backend."""
