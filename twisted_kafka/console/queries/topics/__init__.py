"""The list of topics, and one topic."""
