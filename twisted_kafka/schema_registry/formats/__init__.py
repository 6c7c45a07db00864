"""The formats of schemas: Avro, JSON Schema and Protobuf, each parsed by a library of the extra ``schema-registry``.

A format's module, and its library, is imported with the first schema of the format.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from twisted_kafka.schema_registry.formats.parsed import Dependencies, ParsedSchema, as_schema_errors
from twisted_kafka.system.installation import install_command

FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "JSON": ("json_schema", "JsonSchema"),
    "PROTOBUF": ("protobuf", "ProtobufSchema"),
    "AVRO": ("avro", "AvroSchema"),
}
"""The module and the class of each format, by Confluent's name."""
_PACKAGES: Final = ("avro", "jsonschema", "google.protobuf", "proto_schema_parser")


def check_installed() -> None:
    """Raise ImportError, one line, unless the libraries of all formats are installed."""
    for name in _PACKAGES:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:  # of the package around it
            found = None
        if found is None:
            raise ImportError(f"the schema registry needs the package {name}: {install_command('schema-registry')}")


def parse(schema_type: str, text: str, dependencies: Dependencies) -> ParsedSchema:
    """Return a schema of one of the formats. Raises SchemaError, one line."""
    module, name = FORMATS[schema_type]
    made: type[ParsedSchema] = getattr(import_module(f"{__name__}.{module}"), name)
    with as_schema_errors():
        parsed = made(text, dependencies)  # type: ignore[call-arg]
        parsed.text.encode()  # half of a surrogate pair is no text that the topic could have
    return parsed
