"""A schema registry: Confluent's REST API over the topic ``_schemas`` of any Kafka. The testing kit serves it."""
