"""How far an emulation can be believed."""
