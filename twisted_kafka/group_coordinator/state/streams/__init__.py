"""Streams groups from their records."""
