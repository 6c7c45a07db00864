"""Counters, meters, histograms and gauges, and how they are read."""
