"""The state machines of partitions and replicas, and the choice of leaders."""
