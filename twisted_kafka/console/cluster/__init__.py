"""Asking a cluster: any Kafka over connections, or this broker in process. Requests are Kafka's in both cases."""
