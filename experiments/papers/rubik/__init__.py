"""Rubik's integer program at sizes up to 1,600 racks."""
