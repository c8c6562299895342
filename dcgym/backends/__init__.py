"""Where tasks run: the contract of backends, and the backends."""
