"""Running emulators as the environment's process sees them: start, commands, death, end."""
