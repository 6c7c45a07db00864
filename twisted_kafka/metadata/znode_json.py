"""The JSON of the metadata tree's nodes, as Kafka writes it."""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from twisted_kafka.system.numbers import INT32_MAX

_T = TypeVar("_T")

_LEAST_INT32: Final = -(2**31)


class BadNodeError(ValueError):
    """A node's data is invalid for its path."""


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """``with reading("broker")``: errors of a decoder become a BadNodeError that names the kind of node."""
    try:
        yield
    except BadNodeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadNodeError(f"not a {kind} node: {error!r}") from error


def int32(value: object) -> int:
    """Return a number of JSON that fits the 32 bits that it has in requests; raises TypeError, ValueError."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.100} is not an integer")
    if not _LEAST_INT32 <= value <= INT32_MAX:
        raise ValueError(f"{value} does not fit 32 bits")
    return value


def epoch(value: object) -> int:
    """Return an epoch of JSON, which has a successor in 32 bits; raises TypeError, ValueError.

    Requests with a larger one could not be encoded. They would be tried again and again, and hold back all later ones.
    """
    number = int32(value)
    if not 0 <= number < INT32_MAX:
        raise ValueError(f"{number} is not an epoch from 0 to {INT32_MAX - 1}")
    return number


def int32_list(value: Iterable[int]) -> list[int]:
    """Return a list of such numbers; raises TypeError, OverflowError."""
    return list(array("i", value))


def text(value: object) -> str:
    """Return a text of JSON; raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not a text")
    return value


def text_list(value: object) -> list[str]:
    """Return a list of texts; raises TypeError."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.100} is not a list")
    return [text(each) for each in value]


def mapping(value: object, read: Callable[[object], _T]) -> dict[str, _T]:
    """Return a JSON object with its values read by ``read``; raises TypeError, ValueError."""
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.100} is not an object")
    return {key: read(each) for key, each in value.items()}


def by_number(lists: Mapping[str, Iterable[int]]) -> dict[int, list[int]]:
    """Return lists of broker ids by their keys, numbers of partitions as strings; raises TypeError, ValueError, OverflowError."""
    numbers = array("i", map(int, lists))
    if list(map(str, numbers)) != list(lists) or (numbers and min(numbers) < 0):
        raise ValueError(f"expected numbers of partitions, not {list(lists)!r:.100}")
    return {key: list(array("i", value)) for key, value in zip(numbers, lists.values(), strict=True)}


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Encode the value as Kafka does: UTF-8, without whitespace."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes) -> dict[str, Any]:
    """Decode a JSON object; raises BadNodeError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
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
