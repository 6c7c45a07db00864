"""Produce, Fetch and the APIs of log offsets."""
