"""The formats of schemas: Avro, JSON Schema and Protobuf, each parsed by a library of the extra ``schema-registry``."""
