"""Storage: partitions as segment files in Kafka's own formats.

``unified_log`` is one partition, ``log_manager`` is all of a broker's; the other modules are what these two are made of.
"""
