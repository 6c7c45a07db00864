"""The messages of administrators: topics, configs, rights, quotas, credentials, log directories."""
