"""Kafka's network layer: acceptors, processors with a reactor each, channels, and the queue between them and the handlers."""
