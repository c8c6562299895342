"""What a balancer measures."""
