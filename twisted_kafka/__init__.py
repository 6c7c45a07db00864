"""A Kafka broker in Python on Twisted."""
