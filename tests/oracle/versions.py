"""Which APIs are compared with which Apache Kafka."""

KRAFT_ONLY = {68, 69, 75}
"""APIs that Apache Kafka 3.9 serves in KRaft mode only."""
