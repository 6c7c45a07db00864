"""Faults of a broker under test: rules, their file, and the place in the broker where they act."""
