"""The console: what a browser, an agent, a terminal and the commands ask a Kafka cluster and do to it (docs/console.md)."""
