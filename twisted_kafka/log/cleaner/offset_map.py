"""The cleaner's table of keys: the latest offset of each, in bounded memory (Kafka: SkimpyOffsetMap).

Keys are kept as hashes of 128 bits, too long for two keys ever to share one. There are two tables of the same behaviour: one of
numpy arrays (the extra ``fast``), which takes 24 bytes an entry as Kafka's does and processes the records of many batches at once,
and a dictionary, which needs no more than Python.
"""

from collections.abc import Sequence
from typing import Protocol

from twisted_kafka.log.cleaner.blocks import Block, DataBatch
from twisted_kafka.log.cleaner.plain_offset_map import PlainOffsetMap

ENTRY_BYTES = 24
"""Memory of an entry in the table of arrays."""

PLAIN_ENTRY_BYTES = 224
"""Memory of an entry in the dictionary: its slot, a digest and a number."""

VECTORISED_FROM_BYTES = 1 << 20
"""Less than this is not worth loading numpy for."""


class Survivors(Protocol):
    """Which records of some batches remain; ``batch`` counts them from 0."""

    @property
    def counts(self) -> Sequence[int]:
        """How many remain of each."""

    @property
    def has_tombstones(self) -> Sequence[bool]:
        """Whether one of those has no value."""

    def indexes(self, batch: int) -> list[int]:
        """Return the numbers of the records that remain."""

    def payload(self, batch: int) -> bytes:
        """Return the records that remain, as they were."""

    def largest_timestamp_delta(self, batch: int) -> int:
        """Return the latest of their times, less the base timestamp."""


class OffsetMap(Protocol):
    """The latest offset of each key, up to ``latest_offset``."""

    latest_offset: int

    @property
    def max_entries(self) -> int:
        """How many keys it can have."""

    def __len__(self) -> int: ...

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
        """Note the keys of the records from ``start_offset`` on.

        Returns False when the table is full; ``latest_offset`` is then that of the last record that it has.
        Raises InvalidRecordError for records that don't parse.
        """

    def survivors(self, batches: Sequence[DataBatch]) -> Survivors:
        """Tell which records no later one replaces, and which tombstones are due; raises InvalidRecordError."""

    def put_plain(self, block: Block, start_offset: int) -> bool:
        """Do what ``put`` does, for all batches of a plain block."""

    def plain_survivors(self, block: Block) -> Survivors:
        """Do what ``survivors`` does, for all batches of a plain block."""


def make_offset_map(memory_bytes: int, load_factor: float, dirty_bytes: int) -> OffsetMap:
    """Return a table that stays within ``memory_bytes`` and ``load_factor``, suited to as many bytes of records."""
    if dirty_bytes >= VECTORISED_FROM_BYTES:
        try:
            from twisted_kafka.log.cleaner.vector_offset_map import VectorOffsetMap
        except ImportError:
            pass
        else:
            return VectorOffsetMap(memory_bytes // ENTRY_BYTES, load_factor)
    return PlainOffsetMap(int(memory_bytes // PLAIN_ENTRY_BYTES * load_factor))
