"""Administration on behalf of request handlers: topics, partitions, configs, policies, log levels."""
