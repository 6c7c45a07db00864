"""Segments: batches, indexes by offset and time, aborted transactions."""
