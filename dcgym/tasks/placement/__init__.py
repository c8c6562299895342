"""Which switch holds which VIP: the data centre, what is decided, seen and rewarded."""
