"""Partitions that this broker hosts: leadership, high watermarks, appends, fetches, and moves between log directories."""
