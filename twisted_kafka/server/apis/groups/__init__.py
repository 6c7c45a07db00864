"""Groups of both protocols and their committed offsets."""
