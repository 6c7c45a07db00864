"""The messages of coordinators: groups, offsets, transactions, and their records."""
