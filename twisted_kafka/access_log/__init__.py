"""The access log: one JSON line about every request that was answered."""
