"""Scenarios about groups and transactions."""
