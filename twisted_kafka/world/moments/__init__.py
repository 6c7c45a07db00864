"""Goes to any moment of a run: copies of the world along its way, each a forked process that waits, and a prompt there."""
