"""The cluster's metadata: the tree store, the layout of its nodes, and the cache that every broker answers from."""
