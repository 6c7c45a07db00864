"""Simulated hours of a cluster under faults and mixed load: ``make world``."""
