"""Speed figures."""
