"""Kafka's wire protocol: messages, headers, errors, record batches."""
