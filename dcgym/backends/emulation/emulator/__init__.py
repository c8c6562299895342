"""The emulator: what runs inside the private namespaces."""
