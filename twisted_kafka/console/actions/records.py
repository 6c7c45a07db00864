"""Producing a record, and resending a dead letter to the topic that it came from."""

import json
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.cluster.murmur2 import partition_for
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.producer import ALL, Producer
from twisted_kafka.console.cluster.reader import Limits, Reader
from twisted_kafka.console.cluster.record_forms import FORMS, HEX, JSON, TEXT, Seen, Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import size_text
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import NO_TIMESTAMP
from twisted_kafka.protocol.topic_partition import TopicPartition

MOST_BYTES: Final = 1024 * 1024
"""Most bytes of a record that is produced here."""

_LIMITS: Final = Limits(2 * MOST_BYTES, 2 * MOST_BYTES, 0, 32 * MOST_BYTES)
_LETTER: Final = "__dlq.errors."
"""Begins the names of the headers that brokers add to a dead letter (KIP-1191)."""
_CONNECT: Final = "__connect.errors."
"""The same for dead letters of Kafka Connect (KIP-298)."""


@dataclass(frozen=True, slots=True)
class Produce:
    """Writes one record."""

    topic: str
    key: str | None = None
    value: str | None = None
    """None: null, which deletes the key in a compacted topic."""
    headers: tuple[tuple[str, str], ...] = ()
    partition: int | None = None
    """None: the key decides, as in Kafka's clients."""
    form: str = TEXT
    """Of key and value: text, json (which is checked) or hex."""

    def preview(self, session: Session) -> Preview:
        """Return the partition and size. Raises CommandError; ValueError for a key or value that is not in the form."""
        record = self._record()
        (found,) = session.topics([self.topic])
        size_bytes = len(record.key or b"") + len(record.value or b"")
        return Preview(f"write a record of {size_text(size_bytes)} to {_target(record, self.topic, len(found.partitions))}")

    def do(self, session: Session) -> str:
        """Write it; return a sentence with its offset. Raises CommandError, and ValueError as ``preview`` does."""
        return _write(session, self.topic, self._record())

    def _record(self) -> Written:
        if self.form not in FORMS:
            raise ValueError(f"{self.form!r} is not a form: choose one of {', '.join(FORMS)}")
        if self.form == JSON and self.value is not None:
            try:
                json.loads(self.value)
            except ValueError as error:
                raise ValueError(f"the value is not JSON: {error}") from None
        key, value = (None if each is None else _bytes(each, self.form) for each in (self.key, self.value))
        headers = [(name, text.encode("utf-8", "surrogateescape")) for name, text in self.headers]
        if len(key or b"") + len(value or b"") > MOST_BYTES:
            raise ValueError(f"the record is larger than {size_text(MOST_BYTES)}: use twisted-kafka produce")
        return Written(key, value, headers, NO_TIMESTAMP, self.partition)


@dataclass(frozen=True, slots=True)
class ResendDeadLetter:
    """Writes a dead letter to the topic that it came from, without the headers that explain the failure."""

    topic: str
    partition: int
    offset: int
    target: str = ""
    """Another topic; empty: the one that the letter names."""

    def preview(self, session: Session) -> Preview:
        """Return the record and where it goes. Raises CommandError."""
        letter = self._letter(session)
        target, record = self._resent(letter)
        (found,) = session.topics([target])
        why = [
            (name.rsplit(".", 1)[-1], (value or b"").decode("utf-8", "replace")[:200])
            for name, value in letter.headers
            if name.startswith((_LETTER, _CONNECT))
        ]
        warnings = ["it is processed a second time by every group of that topic", "the letter stays where it is"]
        if letter.value is None:
            warnings.insert(0, "the letter has no value: errors.deadletterqueue.copy.record.enable was not set for the group")
        where = _target(record, target, len(found.partitions))
        return Preview(f"write the letter at offset {self.offset} to {where}", ("", "value"), tuple(why), tuple(warnings))

    def do(self, session: Session) -> str:
        """Write it; return a sentence with its offset. Raises CommandError."""
        target, record = self._resent(self._letter(session))
        return _write(session, target, record)

    def _letter(self, session: Session) -> Seen:
        where = TopicPartition(self.topic, self.partition)
        reader = Reader(session, {where: self.offset}, {where: self.offset + 1}, 0, _LIMITS)
        for record in reader.fetch():
            return record
        raise CommandError(f"{self.topic} partition {self.partition} has no record with offset {self.offset}")

    def _resent(self, letter: Seen) -> tuple[str, Written]:
        names = dict(letter.headers)
        origin = names.get(f"{_LETTER}topic") or names.get(f"{_CONNECT}topic") or b""
        target = self.target or origin.decode("utf-8", "replace")
        if not target:
            raise CommandError(f"the record at offset {self.offset} does not name the topic that it came from: name one")
        kept = [(name, value) for name, value in letter.headers if not name.startswith((_LETTER, _CONNECT))]
        return target, Written(letter.key, letter.value, kept)


def _bytes(text: str, form: str) -> bytes:
    if form == HEX:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError(f"{text[:40]!r} is not hexadecimal") from None
    return text.encode("utf-8", "surrogateescape")


def _target(record: Written, topic: str, partitions: int) -> str:
    if record.partition is not None:
        if not 0 <= record.partition < partitions:
            raise CommandError(f"{topic} has no partition {record.partition}: it has {partitions}, from 0 on")
        return f"partition {record.partition} of {topic}"
    return f"some partition of {topic}" if record.key is None else f"partition {partition_for(record.key, partitions)} of {topic}"


def _write(session: Session, topic: str, record: Written) -> str:
    (found,) = session.topics([topic])
    producer = Producer(session, topic, len(found.partitions), ALL, Compression.NONE)
    producer.add(record._replace(timestamp_ms=session.wall_ms() if record.timestamp_ms < 0 else record.timestamp_ms))
    producer.flush()
    ((partition, (offset, _)),) = producer.written.items()
    return f"the record is at offset {offset} of partition {partition} of {topic}"
