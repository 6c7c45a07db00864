"""Incidents and habits of a fourth author, written before anything of the detectors was read."""
