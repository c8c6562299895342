"""What tasks of every kind share."""
