"""Consumer groups: members only send heartbeats, and the coordinator computes the assignment (KIP-848)."""
