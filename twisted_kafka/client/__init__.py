"""Requests of this broker to other brokers: NetworkClient, its connections, and a blocking variant for threads."""
