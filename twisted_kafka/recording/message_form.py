"""Messages as JSON in a recording: fields by Kafka's names, UTF-8 bytes as text, and no secrets."""

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.config.keys import BROKER_KEYS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import PASSWORD
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import Field, ListOf, Struct, StructType
from twisted_kafka.protocol.json_form import Form, from_json, to_json
from twisted_kafka.recording.batches_form import read_batches, read_value, write_batches, write_value

HIDDEN: Final = {"hidden": True}
"""Written in place of a secret."""


OF_OTHER_TYPES: Final = (KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)
"""The errors for a value that no recorder has written."""


class HiddenError(ValueError):
    """A message has secrets that were not written."""


class RecordedForm(Form):
    """Writes bytes as text where possible, splits record batches into records, and hides secrets."""

    def __init__(self, producer_ids: Mapping[int, int] | None = None) -> None:
        """``producer_ids`` maps producer ids in batches to the ids to read instead."""
        self._producer_ids = producer_ids or {}

    @override
    def write_field(self, struct: Struct, field: Field, version: int) -> Any:
        """Return a field's value, or HIDDEN."""
        if field.secret and getattr(struct, field.name) and not _is_plain_setting(struct):
            return HIDDEN
        return super().write_field(struct, field, version)

    @override
    def write_bytes(self, value: Any) -> Any:
        """Return text, or an object with base64."""
        return write_value(value)

    @override
    def write_records(self, value: bytes) -> Any:
        """Return a list of batches."""
        return write_batches(value)

    @override
    def read_bytes(self, form: Any) -> bytes:
        """Return the bytes. Raises HiddenError for a secret."""
        if form == HIDDEN:
            raise HiddenError("its secrets are not in the recording")
        value = read_value(form)
        assert value is not None, "None is read by the caller"
        return value

    @override
    def read_records(self, form: Any) -> bytes:
        """Return the batches' bytes."""
        return read_batches(form, self._producer_ids)


def _is_plain_setting(struct: Struct) -> bool:
    """Whether this is a known setting and no password. (Kafka: an unknown setting is sensitive.)"""
    name = getattr(struct, "name", None)
    if not isinstance(name, str):
        return False
    key = BROKER_KEYS.get(base_key(name) or "")
    return name in TOPIC_KEYS or (key is not None and key.type != PASSWORD)


@cache
def has_secrets(cls: StructType) -> bool:
    """Whether messages of this class have fields that may be secret."""
    for field in cls.FIELDS:
        kind = field.type.element if isinstance(field.type, ListOf) else field.type
        if field.secret or (isinstance(kind, StructType) and has_secrets(kind)):
            return True
    return False


_FORM: Final = RecordedForm()


def write_message(message: Message, version: int) -> dict[str, Any]:
    """Return a message for a recording."""
    return to_json(message, version, _FORM)


def read_message(
    cls: type[Message], fields: dict[str, Any], version: int, producer_ids: Mapping[int, int] | None = None
) -> Message:
    """Return the message with these fields. Raises ValueError, and HiddenError if its secrets are missing."""
    if _is_hidden(fields):
        raise HiddenError("its secrets are not in the recording")
    try:
        return from_json(cls, fields, version, RecordedForm(producer_ids))
    except OF_OTHER_TYPES as error:
        raise ValueError(f"{cls.__name__} v{version} cannot be read: {type(error).__name__}: {error}") from None


def encode(message: Message, version: int) -> bytes:
    """Return the bytes of a message that ``read_message`` returned. Raises ValueError if a field has a value of another type."""
    try:
        return message.encode(version)
    except OF_OTHER_TYPES as error:
        name = type(message).__name__
        raise ValueError(f"{name} v{version} cannot be encoded: {type(error).__name__}: {error}") from None


def _is_hidden(form: Any) -> bool:
    if isinstance(form, dict):
        return form == HIDDEN or any(map(_is_hidden, form.values()))
    return isinstance(form, list) and any(map(_is_hidden, form))
