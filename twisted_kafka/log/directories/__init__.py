"""Log directories: locks, loading of their logs, meta.properties, failures."""
