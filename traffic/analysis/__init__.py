"""What became of a plan's flows."""
