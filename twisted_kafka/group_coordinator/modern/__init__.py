"""The part of the coordinator for all groups whose partitions it assigns itself."""
