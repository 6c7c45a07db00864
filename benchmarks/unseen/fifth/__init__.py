"""Incidents and habits of a fifth author, who has read nothing of the detectors."""
