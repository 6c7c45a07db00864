"""Threads that use the broker's shared structures at once: ``python -m tests.stress``."""
