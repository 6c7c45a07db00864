"""The base class of messages, and the compiler of a decoder and an encoder for each version, on first use.

The generated source is ordinary Python: ``print(source_of(FetchRequest, 11))`` shows it, and tracebacks quote it.
"""

import linecache
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

from twisted_kafka.protocol.compiler.decoder_source import DecoderSource
from twisted_kafka.protocol.compiler.encoder_source import EncoderSource
from twisted_kafka.protocol.compiler.layout import SourceWriter, has_records
from twisted_kafka.protocol.compiler.schema import Struct, StructType
from twisted_kafka.protocol.compiler.wire import NO_LIMIT, EncodeError, MalformedMessageError, TooManyElementsError, coalesce, join
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.regions import Buffer, Part

__all__ = ["EncodeError", "MalformedMessageError", "Message", "TooManyElementsError", "decoder_of", "encoder_of", "source_of"]

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]
Encoder = Callable[[Any, list[Part]], None]

# Decoders of memoryviews share the dictionary of the others; their key is the version plus this, which no int16 reaches.
VIEWS = 0x10000


def _check_version(cls: StructType, version: int) -> None:
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise UnsupportedVersionError(f"{cls.__name__} supports versions {low} to {high}, not {version}")


def compiled(source: SourceWriter, label: str, function: str) -> Callable[..., Any]:
    text = source.text()
    name = f"<{label}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), source.scope)
    return cast(Callable[..., Any], source.scope[function])


def decoder_of(cls: type["Message"], version: int, from_view: bool = False) -> Decoder:
    """Return the function that decodes ``(data, offset, most_elements)`` into the message and the position after it.

    With ``from_view`` it takes memoryviews, otherwise bytes and bytearrays. Raises UnsupportedVersionError for a version that
    the message does not have.
    """
    key = version + VIEWS if from_view else version
    decoder: Decoder | None = cls.DECODERS.get(key)
    if decoder is None:
        _check_version(cls, version)
        source = DecoderSource(cls, version, from_view)
        label = f"decoder of {cls.__name__} v{version}{' from views' if from_view else ''}"
        decoder = cls.DECODERS[key] = compiled(source, label, "decode")
    return decoder


def encoder_of(cls: type["Message"], version: int) -> Encoder:
    """Return the function that appends the parts of ``(message, out)``; raises UnsupportedVersionError as decoder_of does."""
    encoder: Encoder | None = cls.ENCODERS.get(version)
    if encoder is None:
        _check_version(cls, version)
        cls.WITH_RECORDS = has_records(cls)
        encoder = cls.ENCODERS[version] = compiled(EncoderSource(cls, version), f"encoder of {cls.__name__} v{version}", "encode")
    return encoder


def source_of(cls: type["Message"], version: int) -> str:
    """Return the generated source of the decoder and the encoder of one version."""
    _check_version(cls, version)
    return DecoderSource(cls, version, False).text() + "\n\n" + EncoderSource(cls, version).text()


class Message(Struct):
    """A request, response, header or record: a struct with versions of its own that can be decoded and encoded.

    ``KEY`` is the API key, or the type number of a record; ``VERSIONS`` are the first and the last version; ``FLEXIBLE`` is the
    first version with compact lengths and tagged fields; ``WITH_RECORDS``, set by the first encoder, says whether it holds records.
    """

    __slots__ = ()

    DECODERS: ClassVar[dict[int, Decoder]]
    ENCODERS: ClassVar[dict[int, Encoder]]
    WITH_RECORDS: ClassVar[bool]

    @classmethod
    def decode(cls, data: Buffer, version: int, offset: int = 0, most_elements: int = NO_LIMIT) -> Self:
        """Decode the message that begins at ``offset``; bytes after it are ignored.

        Records become memoryviews of ``data``, everything else is copied. Raises MalformedMessageError when the bytes are not a
        valid message, UnsupportedVersionError when there is no such version, and TooManyElementsError, a MalformedMessageError,
        when it has more than ``most_elements`` in all of its arrays.
        """
        from_view = type(data) is memoryview
        decoder = cls.DECODERS.get(version + VIEWS if from_view else version) or decoder_of(cls, version, from_view)
        return decoder(data, offset, most_elements)[0]  # type: ignore[no-any-return]

    @classmethod
    def decode_prefix(cls, data: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """Decode as ``decode`` does; return the message and the position after it."""
        return decoder_of(cls, version, type(data) is memoryview)(data, offset, NO_LIMIT)

    def encode(self, version: int) -> bytes:
        """Return the message as bytes; file regions among its records are read.

        Raises UnsupportedVersionError when a field that is not ignorable differs from its default and the version lacks it,
        EncodeError when a value does not fit its type.
        """
        cls = type(self)
        out: list[Part] = []
        (cls.ENCODERS.get(version) or encoder_of(cls, version))(self, out)
        return join(out) if cls.WITH_RECORDS else b"".join(out)  # type: ignore[arg-type]

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the message as parts to send in this order; raises the errors of ``encode``.

        File regions and large buffers among its records are separate parts; everything between them is joined.
        """
        cls = type(self)
        out: list[Part] = [prefix]
        (cls.ENCODERS.get(version) or encoder_of(cls, version))(self, out)
        return coalesce(out) if cls.WITH_RECORDS else [b"".join(out)]  # type: ignore[arg-type]
