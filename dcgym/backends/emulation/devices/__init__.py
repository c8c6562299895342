"""The environment's side of emulated servers whose devices are stations of their own."""
