"""What the coordinator does for all groups whose members it assigns partitions to."""
