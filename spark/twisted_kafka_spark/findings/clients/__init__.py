"""Findings about clients: what they do too much, no more, or otherwise than before."""
