"""Slow phases of requests: when, on which broker, for which API and because of which client."""
