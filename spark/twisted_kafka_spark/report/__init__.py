"""The report for those who read it: as a page, as JSON, and in a terminal."""
