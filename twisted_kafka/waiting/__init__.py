"""Waiting without a thread: futures, and purgatories of operations that complete later."""
