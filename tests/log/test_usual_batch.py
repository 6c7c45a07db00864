"""The usual batch takes a shorter way into the log than ``append_each_as_leader``, with the same outcome."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, batch, log_state
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.results import LogAppendInfo
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.usual_batch import usual_header
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.layout import CRC_AT, CRC_START, INT32, INT64, MAX_TIMESTAMP_AT, SEQUENCE_AT, UINT32
from twisted_kafka.protocol.records.record import SimpleRecord


def sent_by(sequence: int, *values: bytes, epoch: int = 0, transactional: bool = False) -> bytearray:
    options: dict[str, Any] = {"is_transactional": transactional}
    made = batch(*values, producer_id=7, producer_epoch=epoch, base_sequence=max(sequence, 0), **options)
    return patched(made, INT32.pack_into, SEQUENCE_AT, sequence)


def patched(records: bytearray, pack: Callable[..., None], at: int, value: int) -> bytearray:
    """Change a field, and the checksum."""
    pack(records, at, value)
    UINT32.pack_into(records, CRC_AT, crc32c(memoryview(records)[CRC_START:]))
    return records


def corrupt() -> bytearray:
    damaged = batch(b"damaged")
    damaged[-1] ^= 1
    return damaged


def based_at(offset: int) -> bytearray:
    records = batch(b"a")
    INT64.pack_into(records, 0, offset)
    return records


USUAL: list[list[bytes | bytearray]] = [
    [batch(b"a"), batch(b"b", b"c"), batch(*[b"%d" % number for number in range(40)])],
    [sent_by(0, b"a"), sent_by(1, b"b", b"c"), sent_by(3, b"d")],
    [sent_by(0, b"a", transactional=True), sent_by(1, b"b", transactional=True), batch(b"c")],
]
SPECIAL: list[list[bytes | bytearray]] = [
    [sent_by(0, b"a"), sent_by(1, b"b"), sent_by(0, b"a"), sent_by(1, b"b"), sent_by(3, b"gap"), sent_by(0, b"e", epoch=1)],
    [sent_by(2**31 - 2, b"a"), sent_by(2**31 - 1, b"b", b"c"), sent_by(1, b"d")],
    [sent_by(0, b"a", epoch=3), sent_by(1, b"fenced", epoch=2), sent_by(1, b"b", epoch=3)],
    [sent_by(0, b"a"), sent_by(1, b"begins", transactional=True), sent_by(2, b"plain"), sent_by(2, b"c", transactional=True)],
    [sent_by(-1, b"a"), sent_by(0, b"b")],
    [corrupt(), batch(b"a"), b"", batch(b"b")[:-1], batch(b"c") + batch(b"d"), b"x" * 10],
    [based_at(1), based_at(0)],
    [batch(b"a", compression=Compression.GZIP), batch(b"b", timestamp_ms=-1), batch(b"c", timestamp_ms=-5)],
    [patched(batch(b"a"), INT64.pack_into, MAX_TIMESTAMP_AT, 5)],
    [batch(bytes(2_000_000)), batch(b"a")],
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"cleanup_policy": ("compact",)},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_after_max_ms": 10},
    {"message_timestamp_before_max_ms": 0},
    {"compression_type": "gzip"},
    {"segment_bytes": 200},
    {"segment_ms": 1, "index_interval_bytes": 0},
    {"max_message_bytes": 75},
]


def outcomes(log: UnifiedLog, each: Sequence[bytes | bytearray], short: bool, *, is_alone: bool) -> list[Any]:
    found: list[Any] = []
    for records in each:
        try:
            if short:
                result: LogAppendInfo | Exception = log.append_as_leader(bytes(records), 0, is_alone=is_alone)
            else:
                (result,) = log.append_each_as_leader([bytes(records)], 0, is_alone=is_alone)
        except Exception as error:  # noqa: BLE001 the other way must have it, too
            result = error
        if isinstance(result, LogAppendInfo):
            names = [name for name in LogAppendInfo.__slots__ if name not in ("batches", "records")]
            found.append({name: getattr(result, name) for name in names})
        else:
            found.append((type(result), str(result)))
    return found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_both_ways_have_the_same_outcome(tmp_path: Path, settings: dict[str, Any]) -> None:
    for number, each in enumerate([*USUAL, *SPECIAL]):
        seen = []
        for short in (True, False):
            directory = tmp_path / f"{number}-{short}"
            directory.mkdir()
            log = Bench(directory / "topic-0", **settings).open()
            found = outcomes(log, each, short, is_alone=number % 3 != 0)
            log.flush()
            seen.append((found, log_state(log)))
            log.close()
        assert seen[0] == seen[1]


def is_usual(records: bytes | bytearray, **settings: Any) -> bool:
    return usual_header(memoryview(records), LogConfig(**settings), lambda: NOW_MS) is not None


def test_what_most_clients_send_is_usual() -> None:
    for each in USUAL:
        assert all(is_usual(records) for records in each)
    keyed = build_batch([SimpleRecord(NOW_MS, b"key", b"value")])
    assert is_usual(keyed, cleanup_policy=("compact",))
    assert is_usual(keyed, message_timestamp_after_max_ms=10, message_timestamp_before_max_ms=10)


def test_it_is_not_usual_if_it_must_be_refused_or_rewritten() -> None:
    for settings in ({"compression_type": "gzip"}, {"message_timestamp_type": "LogAppendTime"}, {"cleanup_policy": ("compact",)}):
        assert not is_usual(batch(b"a"), **settings)
    for offset_ms in (-11, 11):
        late = batch(b"a", timestamp_ms=NOW_MS + offset_ms)
        assert not is_usual(late, message_timestamp_after_max_ms=10, message_timestamp_before_max_ms=10)
    for records in (corrupt(), based_at(1), b"", batch(b"a", compression=Compression.GZIP), batch(b"a", timestamp_ms=-1)):
        assert not is_usual(records)
