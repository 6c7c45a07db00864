"""Connections to other brokers: over TCP, TLS and SASL, on a reactor or blocking."""
