"""Kafka for tests: a broker whose time, faults and records a test controls."""

from twisted_kafka.testing.clock import Clock

__all__ = ["Clock"]
