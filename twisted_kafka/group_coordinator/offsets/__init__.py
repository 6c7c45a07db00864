"""Committed offsets of groups: storage, requests, expiration."""
