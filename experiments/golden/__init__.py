"""Golden traces of the kernel's TCP for the packet twin."""
