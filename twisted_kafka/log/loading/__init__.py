"""Loading one log: recovery, interrupted swaps of segments, segments that overflow."""
