"""Clusters of brokers in processes of their own, under load and with faults; and the checker of what their clients saw."""
