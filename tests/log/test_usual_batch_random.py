"""Random appends, faults and changes have the same outcome with and without the short way of usual batches."""

import errno
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, log_state
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log import unified_log
from twisted_kafka.log.results import FetchIsolation, LogAppendInfo
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.checksums import crc32c
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.layout import CRC_AT, CRC_START, INT32, INT64, MAX_TIMESTAMP_AT, SEQUENCE_AT, UINT32
from twisted_kafka.protocol.records.record import SimpleRecord

STEPS = 40
USUAL_HEADER = "usual_header"
MARGIN = 16
"""Bytes of a request before and after its records."""
LARGEST = 2**31 - 1
EDGES_MS = [0, -1, -5, 2**63 - 1, 2**63 - 4, 1]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"index_interval_bytes": 0},
    {"index_interval_bytes": 100, "segment_index_bytes": 96},
    {"segment_bytes": 700, "index_interval_bytes": 200},
    {"segment_bytes": 170, "max_message_bytes": 78},
    {"segment_ms": 1000},
    {"cleanup_policy": ("compact",), "max_compaction_lag_ms": 500},
    {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 1000},
    {"message_timestamp_after_max_ms": 0},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "gzip"},
    {"flush_messages": 3},
    {"preallocate": True, "segment_bytes": 2000},
]
SEEDS = len(SETTINGS)
NEVER_USUAL = {"message_timestamp_type", "compression_type"}

Step = Callable[["Side"], Any]


class Side:
    """A log, and whether it may take the short way."""

    def __init__(self, directory: Path, is_short: bool, settings: dict[str, Any]) -> None:
        self.is_short = is_short
        self.bench = Bench(directory, **settings)
        self.log = self.bench.open()
        self.guards: dict[int, Any] = {}
        self.usual = 0

    def outcome(self, step: Step) -> Any:
        try:
            result = step(self)
        except Exception as error:  # noqa: BLE001 the other side must have it, too
            return type(error), str(error).replace(str(self.bench.directory), "")
        return described(result)

    def everything(self) -> list[Any]:
        log = self.log
        marks = [log.limits.log_end, log.limits.high_watermark, log.limits.last_stable, log.limits.first_unstable]
        epochs = log.latest_epoch, log.recovery_point, log.checkpointed_truncations, len(self.bench.failures)
        segments = [(each.base_offset, each.size_bytes, each.max_timestamp, each.first_timestamp_ms) for each in log.segments]
        return [log_state(log), marks, epochs, segments, log.aborted_transactions(0, log.log_end_offset)]


def described(result: Any) -> Any:
    if isinstance(result, list):
        return [described(each) for each in result]
    if isinstance(result, LogAppendInfo):
        names = [name for name in LogAppendInfo.__slots__ if name not in ("batches", "records", "conversion")]
        return {name: getattr(result, name) for name in names}
    return (type(result), str(result)) if isinstance(result, Exception) else result


class World:
    """Draws steps for two logs that must not differ."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.leader_epoch = 0

    def step(self) -> Step:
        pick = self.chance.random()
        if pick < 0.75:
            return self.append()
        return self.chance.choice([self.marker, self.verification, self.change, self.change, self.change, self.several])()

    def records(self) -> tuple[bytes, int, bool]:
        """Return records, their producer, and whether they are transactional."""
        chance = self.chance
        producer = chance.choice([-1, -1, 1, 2, 3])
        options: dict[str, Any] = {}
        count = chance.choice([1, 1, 2, 3, 9])
        is_transactional = False
        sequence = -1
        if producer >= 0 or chance.random() < 0.02:
            if producer >= 0 and chance.random() < 0.05:
                self.epochs[producer] = self.epochs.get(producer, 0) + chance.choice([1, 1, -1])
                self.sequences[producer] = chance.choice([0, 0, 3])
            first = LARGEST - 5 if producer == 3 else 0
            sequence = self.sequences.setdefault(producer, first)
            if chance.random() < 0.1:
                sequence += chance.choice([-1, 1, 5])
                sequence = max(-1, sequence)
            is_transactional = chance.random() < (0.9 if producer == 2 else 0.05)
            options = {
                "producer_id": producer,
                "producer_epoch": self.epochs.get(producer, 0),
                "base_sequence": max(sequence, 0) % (LARGEST + 1),
                "is_transactional": is_transactional,
            }
            if chance.random() < 0.9:
                after = sequence + count
                self.sequences[producer] = after if after <= LARGEST else after - LARGEST - 1
        base_ms = NOW_MS + chance.randrange(-1500, 1500) if chance.random() < 0.85 else chance.choice(EDGES_MS)
        key = b"k" if chance.random() < 0.9 else None
        times = [min(2**63 - 1, base_ms + chance.choice([0, 1, -1, number])) for number in range(count)]
        if chance.random() < 0.03:
            options["compression"] = Compression.GZIP
        made = bytearray(build_batch([SimpleRecord(at, key, bytes(chance.choice([0, 3, 50]))) for at in times], **options))
        return self.damaged(made, sequence if options else None), producer, is_transactional

    def damaged(self, made: bytearray, sequence: int | None) -> bytes:
        chance = self.chance
        if sequence == -1:
            INT32.pack_into(made, SEQUENCE_AT, -1)
        pick = chance.random()
        if pick < 0.02:
            INT64.pack_into(made, MAX_TIMESTAMP_AT, chance.choice(EDGES_MS))
        elif pick < 0.03:
            made[21 + chance.randrange(2)] ^= 1 << chance.randrange(8)
        elif pick < 0.05:
            made[chance.randrange(21, len(made))] ^= 1 << chance.randrange(8)
        UINT32.pack_into(made, CRC_AT, crc32c(memoryview(made)[CRC_START:]))
        if 0.05 < pick < 0.07:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        return bytes(made[: chance.randrange(len(made))] if 0.07 < pick < 0.08 else made)

    def append(self) -> Step:
        made, producer, is_transactional = self.records()
        chance = self.chance
        epoch = self.leader_epoch
        is_alone = chance.random() < 0.6
        kind = chance.choice(["bytes", "bytearray", "frame", "frame"])
        uses_guard = is_transactional and chance.random() < 0.7
        fails = chance.choice([None] * 12 + [errno.ENOSPC, errno.EIO, 0])
        taken = chance.randrange(len(made) + 1)

        def run(side: Side) -> Any:
            memory = bytearray(MARGIN) + made + bytearray(MARGIN)
            whole = memoryview(memory)[MARGIN : MARGIN + len(made)]
            given = made if kind == "bytes" else bytearray(made) if kind == "bytearray" else whole
            guard = side.guards.pop(producer, None) if uses_guard else None
            call = partial(side.log.append_as_leader, given, epoch, guard=guard, is_alone=is_alone)
            result = side.outcome(lambda _: call() if fails is None else failing(call, fails, taken))
            return [result, bytes(memory), bytes(given)]

        return run

    def several(self) -> Step:
        each = [self.records()[0] for _ in range(3)]
        return lambda side: side.log.append_each_as_leader(each, self.leader_epoch)

    def marker(self) -> Step:
        producer = self.chance.choice([2, 2, 2, 1])
        made = end_transaction_marker(
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0),
            commit=self.chance.random() < 0.5,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        return lambda side: side.log.append_as_leader(bytes(made), self.leader_epoch, AppendOrigin.COORDINATOR)

    def verification(self) -> Step:
        producer, bumps = self.chance.choice([1, 2, 2]), self.chance.random() < 0.2
        epoch = self.epochs.get(producer, 0) + (self.chance.random() < 0.4)
        sequence = self.sequences.get(producer, 0)
        is_on = self.chance.random() < 0.7

        def run(side: Side) -> Any:
            side.bench.are_transactions_verified = is_on
            side.guards[producer] = guard = side.log.start_verification(producer, epoch, sequence, bumps)
            return guard is not None

        return run

    def change(self) -> Step:
        chance = self.chance
        ratio, later_ms = chance.random(), chance.choice([1, 700, 3_000])
        settings = chance.choice(SETTINGS)
        if chance.random() < 0.2:
            self.leader_epoch += 1

        def truncate(side: Side) -> Any:
            return side.log.truncate_to(int(side.log.log_end_offset * (0.5 + ratio / 2)))

        def reopen(side: Side) -> Any:
            side.log = side.bench.reopen_clean(side.log)

        def crash(side: Side) -> Any:
            log = side.log
            side.log = side.bench.open(recovery_point=log.recovery_point, log_start_offset=log.log_start_offset)

        def start(side: Side) -> Any:
            return side.log.increment_log_start_offset(int(side.log.high_watermark * ratio))

        def config(side: Side) -> Any:
            side.bench.config = LogConfig(**settings)
            side.log.update_config(side.bench.config)

        def close(side: Side) -> Any:
            side.log.flush_and_close()
            found = side.outcome(lambda each: each.log.append_as_leader(b"", 0))
            more = side.outcome(lambda each: each.log.append_as_leader(build_batch([SimpleRecord(NOW_MS, b"k", b"v")]), 0))
            side.log = side.bench.open(
                was_clean=True, recovery_point=side.log.recovery_point, log_start_offset=side.log.log_start_offset
            )
            return found, more

        simple: list[Step] = [
            lambda side: side.log.flush(),
            lambda side: side.log.roll(),
            lambda side: side.bench.clock.advance_ms(later_ms),
            lambda side: side.log.update_high_watermark(int(side.log.log_end_offset * ratio)),
            lambda side: side.log.update_high_watermark(side.log.log_end_offset),
            lambda side: side.log.remove_expired_producers(NOW_MS + int(ratio * 172_000_000)),
            lambda side: side.log.delete_old_segments(),
            lambda side: side.log.read(side.log.log_start_offset, 1000, FetchIsolation.TXN_COMMITTED).fetch_offset,
        ]
        return chance.choice([*simple, truncate, reopen, crash, start, config, close])


def failing(call: Callable[[], Any], code: int, taken: int) -> Any:
    """Call while the first write takes some bytes only; later ones fail with ``code``, if it is not 0."""
    real = os.pwrite
    writes: list[int] = []

    def pwrite(fd: int, data: Any, position: int) -> int:
        writes.append(position)
        if len(writes) == 1 and taken:
            return real(fd, memoryview(data)[:taken], position)
        if code:
            raise OSError(code, os.strerror(code))
        return real(fd, data, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        return call()


@pytest.mark.whole_transfers  # both logs must meet the same ones
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_sequence_of_appends_tells_both_ways_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    real = getattr(unified_log, USUAL_HEADER)
    current: list[Side] = []

    def usual_header(*arguments: Any) -> Any:
        if not current[0].is_short:
            return None
        found = real(*arguments)
        current[0].usual += found is not None
        return found

    monkeypatch.setattr(unified_log, USUAL_HEADER, usual_header)
    settings = SETTINGS[seed % len(SETTINGS)]
    sides = []
    for is_short in (True, False):
        (tmp_path / f"{is_short}").mkdir()
        sides.append(Side(tmp_path / f"{is_short}" / "topic-0", is_short, settings))
    world = World(seed)
    for number in range(STEPS):
        step = world.step()
        seen = []
        for side in sides:
            current[:] = [side]
            found = side.outcome(step)
            seen.append([found, side.everything()])
        assert seen[0] == seen[1], f"step {number}"
    assert sides[0].usual or not NEVER_USUAL.isdisjoint(settings)
    for close in (True, False):
        seen = []
        for side in sides:
            current[:] = [side]
            side.outcome(lambda each: each.log.flush())
            side.log = side.bench.reopen_clean(side.log) if close else side.bench.open()
            seen.append(side.everything())
        assert seen[0] == seen[1]
