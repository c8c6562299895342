"""What is decided, seen and rewarded: data and pure functions, without I/O."""
