"""Reports on a broker's access log with PySpark; imports nothing of the broker."""
