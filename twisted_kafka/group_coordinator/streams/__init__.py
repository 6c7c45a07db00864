"""The streams group protocol (KIP-1071): topologies, internal topics, tasks."""
