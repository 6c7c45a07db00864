"""Quotas of users, clients and addresses: where they are kept, who may have which, and what enforces them."""
