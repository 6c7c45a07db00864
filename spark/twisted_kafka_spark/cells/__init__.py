"""Cells: what a report is made from, folded from records and merged."""
