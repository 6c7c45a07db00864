"""The log cleaner: compaction of logs."""
