"""Commands for any Kafka cluster: topics, records, groups, configs, ACLs, users, quotas, transactions, log directories."""
