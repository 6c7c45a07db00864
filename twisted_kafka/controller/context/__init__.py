"""The controller's view of the cluster, and the store that rejects writes of former controllers."""
