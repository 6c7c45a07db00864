"""A schema registry for tests: Confluent's REST API beside a broker under test, with faults and a record of its requests."""
