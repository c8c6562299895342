"""How fast each host may send."""
