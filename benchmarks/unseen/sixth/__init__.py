"""Incidents and habits of a sixth author. The author had read no detector."""
