"""Scenarios about brokers and partitions."""
