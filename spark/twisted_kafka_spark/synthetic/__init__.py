"""A synthetic day of a broker's access log with incidents at known times, for testing the findings."""
