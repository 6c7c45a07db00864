"""Record batches of the formats 0, 1 and 2: read, build, convert, compress."""
