"""Incidents and habits of a fifth author. The author had read no detector."""
