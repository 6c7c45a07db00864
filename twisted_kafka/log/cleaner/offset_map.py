"""The cleaner's offset map: the latest offset of each key, in bounded memory (Kafka: SkimpyOffsetMap).

Keys are stored as 128-bit hashes, so long that collisions do not happen in practice. There are two implementations: one with numpy
arrays (the extra ``fast``, on CPython), which takes 24 bytes per entry as in Kafka and processes the records of many batches at
once, and a dictionary, which needs no dependency.
"""

from collections.abc import Sequence
from typing import Protocol

from twisted_kafka.log.cleaner.blocks import Block, DataBatch
from twisted_kafka.log.cleaner.plain_offset_map import PlainOffsetMap
from twisted_kafka.system.interpreter import NUMPY_PAYS

ENTRY_BYTES = 24
"""Memory per entry of the numpy map."""

PLAIN_ENTRY_BYTES = 224
"""Memory per entry of the dictionary: its slot, a digest and an integer."""

VECTORISED_FROM_BYTES = 1 << 20
"""The smallest amount of dirty bytes for which numpy is loaded."""


class Survivors(Protocol):
    """The records of some batches that are retained; ``batch`` is the index of a batch."""

    @property
    def counts(self) -> Sequence[int]:
        """The number of retained records of each batch."""

    @property
    def has_tombstones(self) -> Sequence[bool]:
        """Whether a retained record is a tombstone, for each batch."""

    def indexes(self, batch: int) -> list[int]:
        """Return the indexes of the retained records."""

    def payload(self, batch: int) -> bytes:
        """Return the retained records, unchanged."""

    def largest_timestamp_delta(self, batch: int) -> int:
        """Return the largest timestamp delta of the retained records."""


class OffsetMap(Protocol):
    """The latest offset of each key, up to ``latest_offset``."""

    latest_offset: int

    @property
    def max_entries(self) -> int:
        """The most keys that fit."""

    def __len__(self) -> int: ...

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
        """Add the keys of the records from ``start_offset`` on.

        Returns False if the map is full; ``latest_offset`` is then the offset of the last record that was added.
        Raises InvalidRecordError for malformed records.
        """

    def survivors(self, batches: Sequence[DataBatch]) -> Survivors:
        """Return the records that have no later record of the same key, without expired tombstones; raises InvalidRecordError."""

    def put_plain(self, block: Block, start_offset: int) -> bool:
        """Like ``put``, for all batches of a plain block."""

    def plain_survivors(self, block: Block) -> Survivors:
        """Like ``survivors``, for all batches of a plain block."""


def make_offset_map(memory_bytes: int, load_factor: float, dirty_bytes: int) -> OffsetMap:
    """Return a map limited to ``memory_bytes`` and ``load_factor``, of the type that suits ``dirty_bytes`` of records."""
    if NUMPY_PAYS and dirty_bytes >= VECTORISED_FROM_BYTES:
        try:
            from twisted_kafka.log.cleaner.vector_offset_map import VectorOffsetMap
        except ImportError:
            pass
        else:
            return VectorOffsetMap(memory_bytes // ENTRY_BYTES, load_factor)
    return PlainOffsetMap(int(memory_bytes // PLAIN_ENTRY_BYTES * load_factor))
