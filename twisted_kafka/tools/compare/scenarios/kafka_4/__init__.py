"""Scenarios of versions that Apache Kafka 3.9 does not have."""
