"""Storage: partitions as segment files in Kafka's own formats.

``unified_log`` is the log of one partition, ``log_manager`` has all logs of a broker; the other modules are their parts.
"""
