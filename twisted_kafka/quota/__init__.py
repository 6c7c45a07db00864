"""Quotas of users, clients and IP addresses: administration, storage, and applying them."""
