"""Waiting without blocking a thread: futures, and purgatories of delayed operations."""
