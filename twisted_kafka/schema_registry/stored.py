"""A registered schema, and its record in the topic ``_schemas``: key and value as Confluent's registry writes and reads them."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from twisted_kafka.schema_registry.compatibility import LEVELS

AVRO: Final = "AVRO"
Form = dict[str, Any]


class Reference(NamedTuple):
    """A version of a subject that a schema refers to by a name: a type of Avro, a document of JSON Schema, an imported file."""

    name: str
    subject: str
    version: int

    def form(self) -> Form:
        """Return it as JSON."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    is_deleted: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for schemas that share an id."""
        return self.schema_type, self.schema, self.references, _text(self.metadata), _text(self.rule_set)

    @property
    def guid(self) -> str:
        """The id that the schema has in every registry: a hash of its content."""
        content = hashlib.md5(self.schema.encode(), usedforsecurity=False)
        for name, subject, version in self.references:
            content.update(name.encode() + subject.encode() + version.to_bytes(4, "big", signed=True))
        for part in (self.metadata, self.rule_set):
            if part is not None:
                content.update(b"\1" + _text(part).encode())
        return str(uuid.UUID(bytes=content.digest()))

    def content(self) -> Form:
        """Return the schema without its place, as JSON. The type is left out for Avro."""
        form: Form = {} if self.schema_type == AVRO else {"schemaType": self.schema_type}
        if self.references:
            form["references"] = [each.form() for each in self.references]
        if self.metadata is not None:
            form["metadata"] = self.metadata
        if self.rule_set is not None:
            form["ruleSet"] = self.rule_set
        return {**form, "schema": self.schema}

    def key(self) -> Form:
        """Return the key of its record."""
        return {"keytype": "SCHEMA", "subject": self.subject, "version": self.version, "magic": 1}

    def value(self) -> Form:
        """Return the value of its record."""
        place = {"subject": self.subject, "version": self.version, "id": self.schema_id}
        return {**place, **self.content(), "deleted": self.is_deleted}


def checked_metadata(value: Any) -> Mapping[str, Any] | None:
    """Return the metadata of a schema, or raise ValueError: an object, whose ``properties`` are texts by name."""
    properties = _object(value, "metadata").get("properties")
    for name, each in _object(properties, "properties").items():
        if not isinstance(each, str | int | float):
            raise ValueError(f"the property {name[:80]!r} of the metadata is {each!r:.80}: expected a text")
    return value  # type: ignore[no-any-return]


def checked_rules(value: Any) -> Mapping[str, Any] | None:
    """Return the rules of a schema, or raise ValueError: an object."""
    _object(value, "ruleSet")
    return value  # type: ignore[no-any-return]


def checked_config(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a subject, or raise ValueError: a setting that is stored counts for every later request."""
    for name, value in _object(form, "the settings").items():
        if name in ("compatibilityLevel", "compatibilityGroup", "alias") and not isinstance(value, str | None):
            raise ValueError(f"{name} is {value!r:.80}: expected a text")
        if name == "normalize" and not isinstance(value, bool | None):
            raise ValueError(f"{name} is {value!r:.80}: expected true or false")
        if name in ("defaultMetadata", "overrideMetadata"):
            checked_metadata(value)
        if name in ("defaultRuleSet", "overrideRuleSet"):
            checked_rules(value)
    if form.get("compatibilityLevel") not in (None, *LEVELS):
        raise ValueError(f"compatibilityLevel is {form['compatibilityLevel']!r:.80}: expected one of {', '.join(LEVELS)}")
    return form


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise ValueError(f"{name} is {value!r:.80}: expected an object")
    return value or {}


def stored_schema(value: Mapping[str, Any]) -> StoredSchema:
    """Return the schema of a record's value. Raises KeyError, TypeError and ValueError for values of another form."""
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in value.get("references") or ()
    )
    return StoredSchema(
        str(value["subject"]),
        int(value["version"]),
        int(value["id"]),
        str(value["schema"]),
        str(value.get("schemaType") or AVRO),
        references,
        checked_metadata(value.get("metadata")),
        checked_rules(value.get("ruleSet")),
        bool(value.get("deleted", False)),
    )


def config_key(subject: str | None) -> Form:
    """Return the key of a subject's settings; None stands for all subjects."""
    return _subject_key("CONFIG", subject)


def mode_key(subject: str | None) -> Form:
    """Return the key of a subject's mode; None stands for all subjects."""
    return _subject_key("MODE", subject)


def delete_subject_key(subject: str) -> Form:
    """Return the key of the record that deletes a subject's versions softly."""
    return _subject_key("DELETE_SUBJECT", subject)


def clear_subject_key(subject: str | None) -> Form:
    """Return the key of the record that removes all traces of deleted versions."""
    return _subject_key("CLEAR_SUBJECT", subject)


def context_key(context: str) -> Form:
    """Return the key of the record that makes a context known."""
    return {"keytype": "CONTEXT", "tenant": "default", "context": context, "magic": 0}


NOOP_KEY: Final[Form] = {"keytype": "NOOP", "magic": 0}
"""The key of the record that a registry writes to find the end of the topic."""


def _subject_key(kind: str, subject: str | None) -> Form:
    return {"keytype": kind, **({} if subject is None else {"subject": subject}), "magic": 0}


def encoded(form: Any) -> str:
    """Return a key or a value as it is in the topic."""
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)


def _text(form: Any) -> str:
    return "" if form is None else json.dumps(form, sort_keys=True)
