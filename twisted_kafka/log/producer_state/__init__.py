"""Idempotent and transactional producers of a log, and the snapshots of their state."""
