"""Records of a topic: a page of them, or as they arrive, with conditions, as text."""
