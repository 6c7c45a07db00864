"""Validation of records before they are appended."""
