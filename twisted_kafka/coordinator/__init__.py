"""The runtime of the coordinators: shards over the partitions of an internal topic, loaded by replaying its records."""
