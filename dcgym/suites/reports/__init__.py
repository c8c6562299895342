"""Tables and figures of finished runs."""
