"""Partitions that this broker hosts: appends, fetches, leadership, high watermarks, fetch sessions."""
