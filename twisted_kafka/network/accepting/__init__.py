"""Accepting connections: listening sockets, and the limits on how many connections there are and how fast they come."""
