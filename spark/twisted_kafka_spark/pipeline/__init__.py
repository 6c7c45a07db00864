"""From sources to a document: lines, rollups, pages."""
