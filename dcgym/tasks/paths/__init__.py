"""Which of several equal-cost paths gets how many flows."""
