"""Classic groups: members join, sync, send heartbeats and leave; the leader computes the assignment."""
