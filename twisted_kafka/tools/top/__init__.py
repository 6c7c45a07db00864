"""``twisted-kafka top``: a cluster, live in a terminal."""
