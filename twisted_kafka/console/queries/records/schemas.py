"""Values in Avro, Protobuf and JSON Schema, by the schemas of a registry, in the topic ``_schemas``, or by a schema's text.

A registered value begins with a zero byte and the schema's id in four bytes. The session reads the topic, so its user needs the
right to read it, and no address of a registry is needed.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST, offsets_at
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.reader import Limits, Reader
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.records.avro_values import AvroReader, as_json
from twisted_kafka.console.queries.records.values import AUTO, Shown, parsed, shown
from twisted_kafka.protocol.topic_partition import TopicPartition

TOPIC: Final = "_schemas"
MOST_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of schemas that are read."""
MOST_FETCHES: Final = 1_000
"""A broker may answer without records for ever."""
MOST_VALUE_BYTES: Final = 1024 * 1024
"""A larger value is not decoded."""
AVRO, PROTOBUF, JSON_SCHEMA = "avro", "protobuf", "json"

_HEAD_BYTES: Final = 5
_RECORD_BYTES: Final = 100
"""Counts for a record besides its key and value: the topic may have millions of deletions."""
_LIMITS: Final = Limits(1024 * 1024, 1024 * 1024, 0, 32 * 1024 * 1024)


class _Schema(NamedTuple):
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    """Name, subject and version."""


class Schemas:
    """The schemas of a registry."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Schema] = {}
        self._by_version: dict[tuple[str, int], _Schema] = {}
        self._decoders: dict[int, Decoder | None] = {}
        """By the schemas' ids; None for a schema that cannot be read."""

    @classmethod
    def of(cls, session: Session) -> "Schemas":
        """Return the schemas of the cluster's registry; none if there is no registry, or the user may not read its topic."""
        found = cls()
        where = TopicPartition(TOPIC, 0)
        with suppress(CommandError):
            start, end = (offsets_at(session, [where], each) for each in (EARLIEST, LATEST))
            reader, size_bytes = Reader(session, start, end, 0, _LIMITS), 0
            for _ in range(MOST_FETCHES):
                if not reader.positions or size_bytes >= MOST_BYTES:
                    break
                for record in reader.fetch():
                    size_bytes += _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
                    found.add(record.value)
                    if size_bytes >= MOST_BYTES:
                        break
        return found

    def add(self, value: bytes | None) -> None:
        """Take a record of the topic; other records than those of schemas are ignored."""
        try:
            form = json.loads(value or b"null")
            if not isinstance(form, dict) or not isinstance(form.get("schema"), str) or not isinstance(form.get("id"), int):
                return
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"])) for each in form.get("references") or ()
            )
            schema = _Schema(str(form.get("schemaType") or "AVRO").upper(), form["schema"], references)
            self._by_id[form["id"]] = schema
            self._by_version[str(form.get("subject")), int(form.get("version", 0))] = schema
        except (ValueError, KeyError, TypeError, RecursionError):
            return

    def decode(self, data: bytes) -> tuple[str, Any] | None:
        """Return the form and the content of a registered value; None for other values, and for those without a known schema."""
        number = int.from_bytes(data[1:_HEAD_BYTES], "big")
        schema = self._by_id.get(number) if is_registered(data) else None
        if schema is None or len(data) > MOST_VALUE_BYTES:
            return None
        try:
            if number not in self._decoders:
                self._decoders[number] = None  # it may take long to find that it cannot be read: once, not for each record
                self._decoders[number] = Decoder(schema.kind, schema.text, self._texts(schema))
            decoder = self._decoders[number]
            return None if decoder is None else decoder.decode(data[_HEAD_BYTES:], is_registered=True)
        except Exception:  # noqa: BLE001 schema and data are anybody's: the value is shown as it is
            return None

    def _texts(self, schema: _Schema) -> dict[str, str]:
        """Return the texts of the schemas that it refers to, by name, the innermost first."""
        found: dict[str, str] = {}
        self._add_texts(schema, found, set(), 0)
        return found

    def _add_texts(self, schema: _Schema, found: dict[str, str], seen: set[tuple[str, int]], depth: int) -> None:
        """Look at each schema once: references may form circles, and each schema may have thousands."""
        for name, subject, version in schema.references:
            other = self._by_version.get((subject, version))
            if other is None:
                continue
            if (subject, version) not in seen and depth < _MOST_REFERENCES:
                seen.add((subject, version))
                self._add_texts(other, found, seen, depth + 1)
            found[name] = other.text


_MOST_REFERENCES: Final = 16
"""The depth to which references are followed."""


def is_registered(data: bytes | None) -> bool:
    """Whether a value may begin with a schema's id."""
    return data is not None and len(data) > _HEAD_BYTES and data[0] == 0


class Decoder:
    """Decodes values by one schema: Avro in JSON, a ``.proto`` file, or JSON Schema, whose values are JSON."""

    def __init__(self, kind: str, text: str, others: Mapping[str, str]) -> None:
        """``others`` are the texts of the schemas that it refers to, by name. Raises ValueError, or another error of a parser."""
        self._avro: AvroReader | None = None
        self._protobuf: _Protobuf | None = None
        if kind == "AVRO":
            self._avro = AvroReader(json.loads(text), [json.loads(each) for each in others.values()])
        elif kind == "PROTOBUF":
            self._protobuf = _Protobuf(text, others)

    def decode(self, payload: bytes, *, is_registered: bool) -> tuple[str, Any]:
        """Return the form and the content of a value without its head. Raises ValueError, or another error of a decoder."""
        if self._avro is not None:
            return AVRO, as_json(self._avro.read(payload))
        if self._protobuf is not None:
            path, start = _indexes(payload) if is_registered else ([0], 0)
            return PROTOBUF, self._protobuf.decode(path, payload[start:])
        return JSON_SCHEMA, json.loads(payload)


def decoder_of(text: str) -> Decoder:
    """Return the decoder of a schema's text: Avro in JSON, or a ``.proto`` file, whose first message it is. Raises ValueError."""
    kind = "AVRO" if text.lstrip()[:1] in ("{", "[", '"') else "PROTOBUF"
    try:
        return Decoder(kind, text, {})
    except Exception as error:  # noqa: BLE001 a schema's text is anybody's
        raise ValueError(f"the schema cannot be read: {' '.join(str(error).split())}") from None


class _Protobuf:
    """The messages of a ``.proto`` file. Needs the extra ``schema-registry``."""

    def __init__(self, text: str, others: Mapping[str, str]) -> None:
        from google.protobuf import descriptor_pool

        from twisted_kafka.schema_registry.formats.parsed import SERIALIZED
        from twisted_kafka.schema_registry.formats.protobuf import FILE_NAME, ProtobufSchema

        schema = ProtobufSchema(text, others)
        self._pool = descriptor_pool.DescriptorPool()
        for each in schema.imported:
            self._pool.AddSerializedFile(each.SerializeToString())
        self._pool.AddSerializedFile(base64.b64decode(schema.formatted(SERIALIZED)))
        self._messages = list(self._pool.FindFileByName(FILE_NAME).message_types_by_name.values())
        if not self._messages:
            raise ValueError("the file has no message")

    def decode(self, path: Sequence[int], payload: bytes) -> Any:
        """Return the message at a path of numbers within the file."""
        from google.protobuf import json_format, message_factory

        found = self._messages[path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
        message = message_factory.GetMessageClass(found).FromString(payload)
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)


def _indexes(payload: bytes) -> tuple[list[int], int]:
    """Return the path of the message in its file, and where the message begins: zigzag numbers, a single 0 for the first."""
    position = 0

    def number() -> int:
        nonlocal position
        found = shift = 0
        while True:
            byte = payload[position]
            position += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80 or shift > 35:
                return (found >> 1) ^ -(found & 1)

    count = number()
    path = [number() for _ in range(min(count, 64))] if count else [0]
    return path, position


class Values:
    """Shows keys and values. It reads the registry's schemas when it meets the first value that may need them."""

    def __init__(self, session: Session, schema: str = "") -> None:
        """``schema`` is the text of a schema for all values. Raises ValueError if it cannot be read."""
        self._session = session
        self._decoder = decoder_of(schema) if schema else None
        self._schemas: Schemas | None = None

    def shown(self, data: bytes | None, form: str, most_characters: int, *, is_key: bool = False) -> Shown:
        """Return bytes in a form; ``auto`` decodes what a schema describes."""
        found = self._decoded(data, is_key=is_key) if form == AUTO and data is not None else None
        if found is None:
            return shown(data, form, most_characters)
        kind, content = found
        text = json.dumps(content, ensure_ascii=False)
        return Shown(text[:most_characters], kind, len(data or b""), len(text) > most_characters)

    def content(self, data: bytes | None) -> Any:
        """Return what conditions on fields look at: decoded by a schema, or JSON; None for other values."""
        found = None if data is None else self._decoded(data, is_key=False)
        return parsed(data) if found is None else found[1]

    def _decoded(self, data: bytes | None, *, is_key: bool) -> tuple[str, Any] | None:
        if data is None:
            return None
        if self._decoder is not None and not is_key and len(data) <= MOST_VALUE_BYTES:
            try:
                return self._decoder.decode(data[_HEAD_BYTES:] if is_registered(data) else data, is_registered=False)
            except Exception:  # noqa: BLE001 a value that the schema does not describe is shown as it is
                return None
        if not is_registered(data):
            return None
        if self._schemas is None:
            self._schemas = Schemas.of(self._session)
        return self._schemas.decode(data)
