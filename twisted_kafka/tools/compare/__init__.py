"""Sends the same requests to two Kafka brokers, and reports every answer that differs.

``compare`` does it in a program, ``twisted-kafka compare`` on the command line. ``scenarios/`` has the requests: each function asks
about one version of one API, with good input and bad. The tests of this broker compare it with Apache Kafka in the same way.
"""

from twisted_kafka.tools.compare.comparison import Address, Comparison, Difference, NotEmptyError, compare

__all__ = ["Address", "Comparison", "Difference", "NotEmptyError", "compare"]
