"""Scenarios about users, ACLs, quotas, settings."""
