"""A storm of kills over all that runs: ``make kills``."""
