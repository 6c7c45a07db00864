"""A schema, whatever its format."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final, Self

RESOLVED: Final = "resolved"
"""The format of an answer in which the schema contains all that it refers to."""
SERIALIZED: Final = "serialized"
"""The format of an answer with a Protobuf schema as a FileDescriptorProto in base64."""


class SchemaError(ValueError):
    """A text that is no schema. One line."""


@contextmanager
def as_schema_errors() -> Iterator[None]:
    """Turn every error of the block into a SchemaError of one line: for schemas that they do not expect, libraries raise any."""
    try:
        yield
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except Exception as error:  # noqa: BLE001 a schema is anybody's
        raise SchemaError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from None


Dependencies = Mapping[str, str]
"""The texts of the schemas that a schema refers to, by the name of the reference; each after its own references."""


class ParsedSchema(abc.ABC):
    """A valid schema, with the texts of the schemas that it refers to."""

    schema_type: ClassVar[str]
    text: str
    """The canonical text: schemas with the same one are the same schema."""

    @abc.abstractmethod
    def normalized(self) -> Self:
        """Return the schema with everything sorted whose order means nothing."""

    @abc.abstractmethod
    def formatted(self, form: str) -> str:
        """Return the text in another form; the canonical text for forms that the format does not have."""

    @abc.abstractmethod
    def resolved(self) -> str:
        """Return a text that two schemas share if one refers to definitions that the other contains."""

    @abc.abstractmethod
    def cannot_read(self, written: Self) -> Sequence[str]:
        """Return the differences that prevent readers with this schema from reading data of ``written``, a line each.

        Each line has Confluent's name for the kind of difference, as ``errorType``.
        """
