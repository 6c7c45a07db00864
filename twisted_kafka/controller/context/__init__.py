"""What the controller knows of the cluster, and the store as it writes to it."""
