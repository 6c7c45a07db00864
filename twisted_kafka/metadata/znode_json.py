"""The JSON of the metadata tree's nodes, as Kafka writes it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote


class BadNodeError(ValueError):
    """A node's data is invalid for its path."""


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """``with reading("broker")``: errors of a decoder become a BadNodeError that names the kind of node."""
    try:
        yield
    except BadNodeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadNodeError(f"not a {kind} node: {error!r}") from error


def by_number(lists: Mapping[str, list[int]]) -> dict[int, list[int]]:
    """Return the lists with their keys, which are strings in JSON, as numbers."""
    return {int(key): list(value) for key, value in lists.items()}


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Encode the value as Kafka does: UTF-8, without whitespace."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes) -> dict[str, Any]:
    """Decode a JSON object; raises BadNodeError."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise BadNodeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadNodeError("not a JSON object")
    return value


def sanitized(name: str) -> str:
    """Return the node name of a user or client: its name, percent-encoded (Kafka: ``Sanitizer``)."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(name: str) -> str:
    """Return the name that ``sanitized`` encoded."""
    return unquote(name)
