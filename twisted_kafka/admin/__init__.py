"""What handlers do on behalf of administrators: topics, partitions, configs, policies, log levels."""
