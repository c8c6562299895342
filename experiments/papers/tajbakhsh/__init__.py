"""Studies of Tajbakhsh (2023): servers with accelerators."""
