"""Assignors on the server's side: who of a consumer group shall own which partition."""
