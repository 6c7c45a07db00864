"""Settings that change while the broker runs."""
