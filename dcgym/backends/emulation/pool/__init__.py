"""Server pools in the emulation: the environment's side."""
