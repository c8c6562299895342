"""Emulation: real Linux hosts and TCP in the private namespaces of one process tree."""
