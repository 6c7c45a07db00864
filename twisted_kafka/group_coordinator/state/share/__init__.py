"""Share groups from their records."""
