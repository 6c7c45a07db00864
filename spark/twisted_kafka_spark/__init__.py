"""Summaries of a broker's access log, made with PySpark; imports nothing of the broker."""
