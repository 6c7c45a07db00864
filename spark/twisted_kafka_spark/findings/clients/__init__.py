"""Findings about clients: excess, silence, and changes of behaviour."""
