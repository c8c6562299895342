"""Algorithms of BenchMARL: several agents, each of which acts on what it sees itself."""
