"""What the tasks on a network share: intervals, features, rewards, events."""
