"""Settings that change while the broker runs, and how those that are secret are stored."""
