"""What is missing in part: one of a client's brokers, or one of a topic's partitions."""
