"""Topics, partitions, configs, quotas, log directories and features."""
