"""What an environment and its emulator share: the command channel, its messages, and layouts."""
