"""A simulated machine: threads and time, a network, and the loops that wait for both."""
