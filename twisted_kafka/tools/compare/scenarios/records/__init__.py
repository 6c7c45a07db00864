"""Scenarios about records and their files."""
