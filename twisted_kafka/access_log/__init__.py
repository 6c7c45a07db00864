"""The access log: one JSON line per completed request."""
