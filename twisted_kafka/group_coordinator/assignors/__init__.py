"""Server-side assignors of consumer groups."""
