"""Consumer groups from their records."""
