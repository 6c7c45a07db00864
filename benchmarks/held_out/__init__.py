"""Days of an access log with incidents that are planted by a seed, and the score of the report's findings on them."""
