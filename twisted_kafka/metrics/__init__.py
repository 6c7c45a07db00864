"""What the broker counts: exact counters, meters, histograms, gauges, and how they are read."""
