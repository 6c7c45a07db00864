"""Loading logs at the start: recovery, interrupted swaps, progress."""
