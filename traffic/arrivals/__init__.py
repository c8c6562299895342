"""When flows begin."""
