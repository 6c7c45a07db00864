"""The cleaner's offset map in numpy arrays, which hashes and looks up the keys of thousands of records at once.

The hash of a key consists of four 32-bit multilinear hashes of its 32-bit words, with secret random coefficients (Lemire and
Kaser, "Strongly universal string hashing is fast"): for any two keys, even chosen by an attacker, the probability of a collision
is 2**-128. Keys longer than 128 bytes are hashed with BLAKE2b first.

An entry takes 24 bytes, as in Kafka's cleaner; a dictionary of digests takes 224 and half a microsecond per key. Without numpy, and
for logs below 1 MB, plain_offset_map does the same with a dictionary. Blocks are of 1 MB, not Kafka's 256 KB, in which numpy's
overhead took a third of the time. Figures: docs/performance-parts.md, "Compaction".
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from twisted_kafka.log.cleaner.blocks import Block, DataBatch
from twisted_kafka.protocol.records.scan_numpy import RecordColumns, record_columns
from twisted_kafka.system import machine

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_WORD_BYTES = 8
_BITS = 8
_MAX_WORDS = 16
_LONGEST_KEY = _MAX_WORDS * _WORD_BYTES
_DIGEST_BYTES = 16
_DIGESTED = 1 << 32
"""Added to the length of long keys, so that their digests differ from short keys."""
_LANES = 4
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_HALF = np.uint64(32)
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(_WORD_BYTES)] + [(1 << 64) - 1], np.uint64)

_BASE_OFFSET = np.arange(8)
_RECORD_COUNT = np.arange(57, 61)
"""The bytes of these fields in a batch's header."""

_SMALLEST_TABLE = 4093
_GROWTH = 4
_REHASHED_AT_ONCE = 1 << 16


class VectorOffsetMap:
    """An OffsetMap of at most ``slots``, filled up to ``load_factor``. The table grows as keys are added."""

    def __init__(self, slots: int, load_factor: float) -> None:
        self._max_slots = _prime_below(max(slots, 3))
        self._load_factor = load_factor
        self.max_entries = self._most_in(self._max_slots)
        self.latest_offset = -1
        self._table = _Table(min(self._max_slots, _SMALLEST_TABLE))
        self._hash = _KeyHash()

    def __len__(self) -> int:
        return self._table.used

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
        return self._put(_Block.of(batches), start_offset)

    def put_plain(self, block: Block, start_offset: int) -> bool:
        return self._put(_Block.of_plain(block), start_offset)

    def _put(self, block: "_Block", start_offset: int) -> bool:
        wanted = (block.columns.key_sizes >= 0) & (block.offsets >= start_offset)
        chosen = wanted.nonzero()[0]
        first, second = self._hash.of(block.payload, block.columns, chosen)
        offsets = block.offsets[chosen]
        done = 0
        while done < len(chosen):
            free = self.max_entries - self._table.used
            if free <= 0:
                if done:
                    self.latest_offset = int(offsets[done - 1])
                return False
            end = min(len(chosen), done + free)
            self._make_room(end - done)
            self._table.put(first[done:end], second[done:end], offsets[done:end])
            done = end
        self.latest_offset = max(self.latest_offset, block.last_offset)
        return True

    def _most_in(self, slots: int) -> int:
        # One slot stays empty whatever the load factor: the search for a key that is missing ends there.
        return max(1, min(int(slots * self._load_factor), slots - 1))

    def _make_room(self, number: int) -> None:
        table = self._table
        if table.used + number <= self._most_in(table.slots) or table.slots == self._max_slots:
            return
        wanted = int((table.used + number) / self._load_factor) * _GROWTH
        self._table = _Table(min(self._max_slots, _prime_below(max(wanted, _SMALLEST_TABLE))))
        self._table.add_all(table)

    def survivors(self, batches: Sequence[DataBatch]) -> "VectorSurvivors":
        keeps_tombstones = np.array([batch.keeps_tombstones for batch in batches])
        return self._survivors(_Block.of(batches), keeps_tombstones)

    def plain_survivors(self, block: Block) -> "VectorSurvivors":
        return self._survivors(_Block.of_plain(block), np.ones(len(block.positions), np.bool_))

    def _survivors(self, block: "_Block", keeps_tombstones: NDArray[np.bool_]) -> "VectorSurvivors":
        columns, offsets = block.columns, block.offsets
        keyed = columns.key_sizes >= 0
        chosen = keyed.nonzero()[0]
        latest = np.full(len(offsets), -1)
        latest[chosen] = self._table.get(*self._hash.of(block.payload, columns, chosen))
        is_wanted = columns.has_value | keeps_tombstones[block.batch_of]
        kept = (keyed & (offsets >= latest) & is_wanted) | (offsets > self.latest_offset)
        return VectorSurvivors(block, kept)


class VectorSurvivors:
    """The surviving records as numpy arrays."""

    def __init__(self, block: "_Block", kept: NDArray[np.bool_]) -> None:
        self._block = block
        self._kept = kept
        self._runs: tuple[list[int], list[int], list[int]] | None = None
        self._newest: list[int] | None = None
        batches = len(block.ends)
        self.counts: list[int] = np.bincount(block.batch_of[kept], minlength=batches).tolist()
        tombstones = block.batch_of[kept & ~block.columns.has_value]
        self.has_tombstones: list[bool] = (np.bincount(tombstones, minlength=batches) > 0).tolist()

    def _span(self, batch: int) -> slice:
        ends = self._block.ends
        return slice(int(ends[batch - 1]) if batch else 0, int(ends[batch]))

    def indexes(self, batch: int) -> list[int]:
        found: list[int] = self._kept[self._span(batch)].nonzero()[0].tolist()
        return found

    def payload(self, batch: int) -> bytes:
        if self._runs is None:
            self._runs = self._find_runs()
        firsts, lasts, bounds = self._runs
        low, high = bounds[batch], bounds[batch + 1]
        data = self._block.payload
        return b"".join([data[first:last] for first, last in zip(firsts[low:high], lasts[low:high], strict=True)])

    def _find_runs(self) -> tuple[list[int], list[int], list[int]]:
        """Return the start and end positions of runs of retained records, and the number of runs before each batch."""
        kept, block = self._kept, self._block
        begins, stops = kept.copy(), kept.copy()
        begins[1:] &= ~kept[:-1]
        stops[:-1] &= ~kept[1:]
        # A run ends with its batch.
        inner = block.ends[:-1]
        begins[inner] = kept[inner]
        stops[inner - 1] = kept[inner - 1]
        batches = len(block.ends)
        bounds = np.concatenate(([0], np.cumsum(np.bincount(block.batch_of[begins], minlength=batches))))
        return block.columns.starts[begins].tolist(), block.columns.ends[stops].tolist(), bounds.tolist()

    def largest_timestamp_delta(self, batch: int) -> int:
        if self._newest is None:
            deltas = np.where(self._kept, self._block.columns.timestamp_deltas, np.iinfo(np.int64).min)
            ends = self._block.ends
            self._newest = np.maximum.reduceat(deltas, np.concatenate(([0], ends[:-1]))).tolist()
        return self._newest[batch]


class _Block:
    """The records of some batches in columns; ``ends`` has the number of records up to the end of each batch."""

    __slots__ = ("batch_of", "columns", "ends", "last_offset", "offsets", "payload")

    def __init__(self, payload: bytes, counts: Numbers, bases: Numbers, last_offset: int) -> None:
        self.payload = payload
        self.last_offset = last_offset
        self.ends: Numbers = np.cumsum(counts)
        self.columns: RecordColumns = record_columns(payload, int(self.ends[-1]))
        self.batch_of = np.repeat(np.arange(len(counts)), counts)
        self.offsets: Numbers = bases[self.batch_of] + self.columns.offset_deltas

    @classmethod
    def of(cls, batches: Sequence[DataBatch]) -> "_Block":
        """Return the records of some batches."""
        counts = np.array([batch.record_count for batch in batches])
        bases = np.array([batch.base_offset for batch in batches])
        return cls(b"".join([batch.payload for batch in batches]), counts, bases, batches[-1].last_offset)

    @classmethod
    def of_plain(cls, block: Block) -> "_Block":
        """Return the records of a plain block."""
        data = np.frombuffer(block.data, np.uint8)
        at = np.array(block.positions)
        bases = data[at[:, None] + _BASE_OFFSET].view(">i8").ravel().astype(np.int64)
        counts = data[at[:, None] + _RECORD_COUNT].view(">i4").ravel().astype(np.int64)
        return cls(b"".join(block.payloads()), counts, bases, block.batch(len(at) - 1).last_offset)


class _KeyHash:
    """Hashes keys with random coefficients of its own."""

    def __init__(self) -> None:
        # One constant, two for the length, two for each word.
        numbers = 1 + 2 + 2 * _MAX_WORDS
        self._coefficients = np.frombuffer(machine.random_bytes(_LANES * numbers * 8), np.uint64).reshape(_LANES, numbers)
        self._secret = machine.random_bytes(32)

    def of(self, payload: bytes, columns: RecordColumns, chosen: Numbers) -> tuple[Words, Words]:
        """Return both halves of the hashes of the keys of the chosen records."""
        sizes, starts = columns.key_sizes[chosen], columns.key_starts[chosen]
        if not len(chosen):
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        long = (sizes > _LONGEST_KEY).nonzero()[0]
        if len(long):
            payload, sizes, starts = self._digested(payload, sizes.copy(), starts.copy(), long)
        word_at = _words_of(payload)
        lanes = [np.full(len(chosen), row[0]) for row in self._coefficients]
        self._add(lanes, sizes.astype(np.uint64), 1)
        lengths = sizes & 0xFFFFFFFF
        for number in range(int(-(-lengths.max() // _WORD_BYTES))):
            left = lengths - number * _WORD_BYTES
            at = starts + number * _WORD_BYTES
            if left.min() >= _WORD_BYTES:
                word = word_at(at)
            else:
                word = word_at(np.where(left > 0, at, 0)) & _MASKS[np.clip(left, 0, _WORD_BYTES)]
            self._add(lanes, word, 3 + 2 * number)
        return (lanes[0] & _HIGH) | (lanes[1] >> _HALF), (lanes[2] & _HIGH) | (lanes[3] >> _HALF)

    def _add(self, lanes: list[Words], word: Words, number: int) -> None:
        low, high = word & _LOW, word >> _HALF
        product = np.empty_like(low)
        for lane, row in zip(lanes, self._coefficients, strict=True):
            np.multiply(low, row[number], out=product)
            lane += product
            np.multiply(high, row[number + 1], out=product)
            lane += product

    def _digested(self, payload: bytes, sizes: Numbers, starts: Numbers, long: Numbers) -> tuple[bytes, Numbers, Numbers]:
        """Replace long keys by digests, appended to the payload."""
        digests = []
        for start, size in zip(starts[long].tolist(), sizes[long].tolist(), strict=True):
            digests.append(blake2b(payload[start : start + size], digest_size=_DIGEST_BYTES, key=self._secret).digest())
        starts[long] = len(payload) + _DIGEST_BYTES * np.arange(len(long))
        sizes[long] = _DIGESTED + _DIGEST_BYTES
        return payload + b"".join(digests), sizes, starts


def _words_of(payload: bytes) -> Callable[[Numbers], Words]:
    """Return a function that reads eight bytes at each position; bytes beyond the end of the payload are undefined."""
    last = len(payload) - _WORD_BYTES  # a record with a key that is not empty has at least eight bytes
    words: Words = np.ndarray((last + 1,), "<u8", payload, strides=(1,))

    def read(at: Numbers) -> Words:
        if at.max() <= last:
            return words[at]
        inside = np.minimum(at, last)
        return words[inside] >> ((at - inside) * _BITS).astype(np.uint64)

    return read


class _Table:
    """Open addressing with double hashing. A row has both halves of a hash and the offset + 1, or 0 if it is empty."""

    __slots__ = ("_rows", "_values", "slots", "used")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.used = 0
        self._rows: Words = np.zeros((slots, 3), np.uint64)
        self._values = self._rows.ravel()

    def _places(self, first: Words, second: Words) -> tuple[Numbers, Numbers]:
        return (first % np.uint64(self.slots)).astype(np.int64), (1 + second % np.uint64(self.slots - 1)).astype(np.int64)

    def put(self, first: Words, second: Words, offsets: Numbers) -> None:
        """Store ascending offsets for the keys with these hashes; there must be room."""
        slot, step = self._places(first, second)
        stored = (offsets + 1).astype(np.uint64)
        values = self._values
        while len(slot):
            rows = self._rows.take(slot, axis=0)
            empty = (rows[:, 2] == 0).nonzero()[0]
            if len(empty):
                at = slot[empty] * 3
                # If several keys claim a slot, the last one wins, the same one in all three columns.
                claim = (empty + 1).astype(np.uint64)
                values[at], values[at + 1], values[at + 2] = first[empty], second[empty], claim
                self.used += int((values[at + 2] == claim).sum())
                rows = self._rows.take(slot, axis=0)
            same = (rows[:, 0] == first) & (rows[:, 1] == second)
            values[slot[same] * 3 + 2] = stored[same]
            other = (~same).nonzero()[0]
            first, second, stored, step = first[other], second[other], stored[other], step[other]
            slot = (slot[other] + step) % self.slots

    def get(self, first: Words, second: Words) -> Numbers:
        """Return the offsets of the keys with these hashes, -1 for missing ones."""
        found = np.full(len(first), -1)
        slot, step = self._places(first, second)
        wanted = np.arange(len(first))
        while len(slot):
            rows = self._rows.take(slot, axis=0)
            offsets = rows[:, 2].astype(np.int64)
            same = (rows[:, 0] == first) & (rows[:, 1] == second) & (offsets > 0)
            found[wanted[same]] = offsets[same] - 1
            other = (~same & (offsets > 0)).nonzero()[0]
            first, second, step, wanted = first[other], second[other], step[other], wanted[other]
            slot = (slot[other] + step) % self.slots
        return found

    def add_all(self, other: "_Table") -> None:
        """Add all entries of another table."""
        rows = other._rows[other._rows[:, 2] > 0]
        for start in range(0, len(rows), _REHASHED_AT_ONCE):
            some = rows[start : start + _REHASHED_AT_ONCE]
            self.put(some[:, 0].copy(), some[:, 1].copy(), some[:, 2].astype(np.int64) - 1)


def _prime_below(number: int) -> int:
    """Return the largest prime up to ``number``: with a prime number of slots, probing reaches every slot."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number -= 1
    return number
