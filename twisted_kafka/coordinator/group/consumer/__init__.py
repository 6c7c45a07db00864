"""The consumer group protocol of KIP-848: one heartbeat, assignments that the coordinator computes."""
