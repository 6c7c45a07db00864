"""Requests that this broker sends to others: NetworkClient, its connections, and a way in for threads that block."""
