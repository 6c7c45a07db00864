"""Rendering of the report: as an HTML page, and as text for the terminal."""
