"""What changes while the broker runs."""
