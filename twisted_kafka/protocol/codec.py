"""Compiles a decoder and an encoder for each version of a message when it is first used, and the class of all messages.

The generated source is ordinary Python: ``print(source_of(FetchRequest, 11))`` shows it, and tracebacks quote it.
"""

import linecache
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

from twisted_kafka.protocol.decoder_source import DecoderSource
from twisted_kafka.protocol.encoder_source import EncoderSource
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.layout import SourceWriter, has_records
from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.protocol.schema import Struct, StructType
from twisted_kafka.protocol.wire import EncodeError, MalformedMessageError, coalesce, join

__all__ = ["EncodeError", "MalformedMessageError", "Message", "decoder_of", "encoder_of", "source_of"]

Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, list[Part]], None]

# Decoders of memoryviews stand in the same dictionary as the others, under the version plus this: no int16 gets there.
VIEWS = 0x10000


def _check_version(cls: StructType, version: int) -> None:
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise UnsupportedVersionError(f"{cls.__name__} has the versions {low} to {high}, not {version}")


def _compile(source: SourceWriter, label: str, function: str) -> Callable[..., Any]:
    text = source.text()
    name = f"<{label}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), source.scope)
    return cast(Callable[..., Any], source.scope[function])


def decoder_of(cls: type["Message"], version: int, from_view: bool = False) -> Decoder:
    """Return the function that decodes ``(data, offset)`` into the message and the position after it.

    With ``from_view`` it takes memoryviews, else bytes and bytearrays. Raises UnsupportedVersionError for a version that the
    message has not got.
    """
    key = version + VIEWS if from_view else version
    decoder: Decoder | None = cls.DECODERS.get(key)
    if decoder is None:
        _check_version(cls, version)
        source = DecoderSource(cls, version, from_view)
        label = f"decoder of {cls.__name__} v{version}{' in views' if from_view else ''}"
        decoder = cls.DECODERS[key] = _compile(source, label, "decode")
    return decoder


def encoder_of(cls: type["Message"], version: int) -> Encoder:
    """Return the function that appends the parts of ``(message, out)``; raises UnsupportedVersionError as decoder_of does."""
    encoder: Encoder | None = cls.ENCODERS.get(version)
    if encoder is None:
        _check_version(cls, version)
        cls.WITH_RECORDS = has_records(cls)
        encoder = cls.ENCODERS[version] = _compile(EncoderSource(cls, version), f"encoder of {cls.__name__} v{version}", "encode")
    return encoder


def source_of(cls: type["Message"], version: int) -> str:
    """Return the generated source of the decoder and the encoder of one version."""
    _check_version(cls, version)
    return DecoderSource(cls, version, False).text() + "\n\n" + EncoderSource(cls, version).text()


class Message(Struct):
    """A request, response, header or record: a struct with versions of its own, which can be read and written.

    ``KEY`` is the API key, or the type number of a record; ``VERSIONS`` the first and the last version; ``FLEXIBLE`` the first
    version with compact lengths and tagged fields; ``WITH_RECORDS``, known once there is an encoder, whether it holds records.
    """

    __slots__ = ()

    DECODERS: ClassVar[dict[int, Decoder]]
    ENCODERS: ClassVar[dict[int, Encoder]]
    WITH_RECORDS: ClassVar[bool]

    @classmethod
    def decode(cls, data: Buffer, version: int, offset: int = 0) -> Self:
        """Read a message that begins at ``offset``; what comes after it is ignored.

        Records become memoryviews of ``data``, everything else is copied. Raises MalformedMessageError when the bytes are no such
        message, UnsupportedVersionError when there is no such version.
        """
        from_view = type(data) is memoryview
        decoder = cls.DECODERS.get(version + VIEWS if from_view else version) or decoder_of(cls, version, from_view)
        return decoder(data, offset)[0]  # type: ignore[no-any-return]

    @classmethod
    def decode_prefix(cls, data: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """Read as ``decode`` does; return the message and the position after it."""
        return decoder_of(cls, version, type(data) is memoryview)(data, offset)

    def encode(self, version: int) -> bytes:
        """Return the message as bytes; file regions among its records are read.

        Raises UnsupportedVersionError when a field differs from its default, the version has not got it and it may not be ignored;
        EncodeError when a value does not fit its type.
        """
        cls = type(self)
        out: list[Part] = []
        (cls.ENCODERS.get(version) or encoder_of(cls, version))(self, out)
        return join(out) if cls.WITH_RECORDS else b"".join(out)  # type: ignore[arg-type]

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the message as parts to send one after the other; raises what ``encode`` raises.

        File regions and big buffers among its records are parts of their own, everything between them is joined.
        """
        cls = type(self)
        out: list[Part] = [prefix]
        (cls.ENCODERS.get(version) or encoder_of(cls, version))(self, out)
        return coalesce(out) if cls.WITH_RECORDS else [b"".join(out)]  # type: ignore[arg-type]
