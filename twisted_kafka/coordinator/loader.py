"""Loads a shard by replaying its partition of the internal topic."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds, UnknownRecordKindError, decode_record
from twisted_kafka.coordinator.shard import CoordinatorShard
from twisted_kafka.protocol.records.batch import RecordBatch, batches
from twisted_kafka.protocol.regions import Buffer

_log = Logger()

LOOK_AHEAD: Final = 1_000
"""How many offsets are checked together for being committed."""

_COMMIT_MARKER = 1
_ABORT_MARKER = 0


class Loaded(NamedTuple):
    """How many records were replayed, and the offset of the log's last one, -1 if the log is empty."""

    record_count: int
    last_offset: int
    uncommitted: dict[str, object]
    """For each key of records that may be uncommitted: the value that was stored before them."""


def load_partition(
    shard: CoordinatorShard,
    kinds: RecordKinds,
    chunks: Iterable[Buffer],
    should_continue: Callable[[], bool],
    is_committed: Callable[[int], bool],
    on_damage: Callable[[int, Exception], None],
) -> Loaded:
    """Replay the records of ``chunks`` into a shard while ``should_continue`` returns true.

    Records of unknown types (written by a newer broker, for example) are skipped, with one log line per type.
    ``on_damage`` is called with the offset of a batch that cannot be read or replayed. It raises to end the load: a damaged
    partition serves the rest of its groups only if an operator says so.
    """
    count, last_offset, known_committed = 0, -1, -1
    unknown: set[str] = set()
    uncommitted: dict[str, object] = {}
    for chunk in chunks:
        if not should_continue():
            break
        for batch in batches(chunk):
            last_offset = batch.last_offset
            try:
                if last_offset > known_committed:
                    if is_committed(last_offset + LOOK_AHEAD):
                        known_committed = last_offset + LOOK_AHEAD
                    elif not is_committed(last_offset):
                        _note_keys(shard, kinds, batch, uncommitted)
                count += _load_batch(shard, kinds, batch, unknown)
            except Exception as error:  # noqa: BLE001 any error would repeat in its next load
                on_damage(batch.base_offset, error)
    for kind in sorted(unknown):
        _log.warn("Skipped records of an unknown type: {kind}", kind=kind)
    return Loaded(count, last_offset, uncommitted)


def _note_keys(shard: CoordinatorShard, kinds: RecordKinds, batch: RecordBatch, uncommitted: dict[str, object]) -> None:
    """Note the value of each key in a batch before the batch is replayed."""
    if batch.is_control:
        keys = shard.keys_of_transaction(batch.producer_id)
    else:
        decoded = (_known(kinds, record.key, record.value) for record in batch.records())
        keys = {shard.key_of(each) for each in decoded if each is not None}
    for key in keys:
        if key not in uncommitted:
            uncommitted[key] = shard.stored(key)


def _known(kinds: RecordKinds, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord | None:
    try:
        return decode_record(kinds, key, value)
    except UnknownRecordKindError:
        return None


def _load_batch(shard: CoordinatorShard, kinds: RecordKinds, batch: RecordBatch, unknown: set[str]) -> int:
    if batch.is_control:
        for record in batch.records():
            marker = int.from_bytes(record.key[2:4], "big", signed=True) if record.key is not None else -1
            if marker in (_COMMIT_MARKER, _ABORT_MARKER):
                shard.replay_end_transaction(batch.producer_id, marker == _COMMIT_MARKER)
        return 0
    producer_id = batch.producer_id if batch.is_transactional else -1
    count = 0
    for record in batch.records():
        try:
            decoded = decode_record(kinds, record.key, record.value)
        except UnknownRecordKindError as error:
            unknown.add(str(error))
            continue
        shard.replay(decoded, producer_id, record.offset)
        count += 1
    return count
