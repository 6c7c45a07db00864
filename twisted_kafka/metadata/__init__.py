"""The cluster's metadata: the tree store, the layout of its nodes, and the metadata cache of the broker."""
