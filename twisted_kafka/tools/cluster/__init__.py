"""Several brokers on one machine for development: ``twisted-kafka cluster 3``."""
