"""Cells: the counts that a report is made from, folded from records and merged."""
