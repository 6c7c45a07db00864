"""The scans of records in Python and with numpy agree with each other and with the parser on any bytes."""

import contextlib
import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.budget import first_of, share_of
from twisted_kafka.protocol.errors import InvalidRecordError
from twisted_kafka.protocol.records.batch import SimpleRecord, parse_records
from twisted_kafka.protocol.records.builder import encode_records
from twisted_kafka.protocol.records.scan import NUMPY_THRESHOLD, scan_records
from twisted_kafka.protocol.records.scan_python import RecordScan, scan_in_python, scan_in_steps
from twisted_kafka.protocol.records.varint import append_varint

scan_with_numpy = pytest.importorskip("twisted_kafka.protocol.records.scan_numpy").scan_with_numpy

BASE_MS = 1_700_000_000_000
FIELDS = st.one_of(st.none(), st.binary(max_size=8), st.binary(min_size=60, max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=70))), max_size=12)
TIMES = st.one_of(st.integers(-3, 300), st.integers(-(1 << 62), 1 << 62))
RECORDS = st.lists(st.builds(SimpleRecord, TIMES, FIELDS, FIELDS, st.one_of(st.just([]), HEADERS)), min_size=1, max_size=20)
SLOW = settings(max_examples=share_of(100), suppress_health_check=list(HealthCheck))


def outcome(scan: object, payload: bytes, count: int) -> RecordScan | None:
    assert callable(scan)
    try:
        result = scan(payload, count)
    except InvalidRecordError:
        return None
    assert isinstance(result, RecordScan)
    return result


def by_parser(payload: bytes, count: int) -> RecordScan | None:
    """Return the parser's result; None when it refuses the records."""
    try:
        records = list(parse_records(payload, count, 0, 0))
    except InvalidRecordError:
        return None
    times = [record.timestamp_ms for record in records]
    return RecordScan(
        [record.offset for record in records] == list(range(count)),
        times[0],
        min(times),
        max(times),
        any(record.key is None for record in records),
    )


def check_agreement(payload: bytes, count: int) -> None:
    expected = by_parser(payload, count)
    assert outcome(scan_in_python, payload, count) == expected
    assert outcome(scan_with_numpy, payload, count) == expected


@pytest.mark.medium
@SLOW
@given(RECORDS, st.lists(st.integers(-5, 70_000), min_size=20, max_size=20) | st.none())
def test_well_formed_records(records: list[SimpleRecord], deltas: list[int] | None) -> None:
    payload = bytes(encode_records(records, 0, deltas))
    assert by_parser(payload, len(records)) is not None
    check_agreement(payload, len(records))


@pytest.mark.medium
@SLOW
@given(RECORDS, st.data())
def test_broken_records(records: list[SimpleRecord], data: st.DataObject) -> None:
    payload = bytearray(encode_records(records, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(payload) - 1))
        change = data.draw(st.sampled_from(["set", "drop", "add", "cut"]))
        if change == "set":
            payload[position] = data.draw(st.integers(0, 255))
        elif change == "drop":
            del payload[position]
        elif change == "add":
            payload.insert(position, data.draw(st.integers(0, 255)))
        else:
            del payload[position:]
        if not payload:
            return
    check_agreement(bytes(payload), len(records) + data.draw(st.sampled_from([0, 0, 0, 1, -1])) or 1)


@SLOW
@given(st.binary(min_size=1, max_size=60), st.integers(1, 9))
def test_random_bytes(payload: bytes, count: int) -> None:
    check_agreement(payload, count)


@SLOW
@given(st.integers(0, 70), FIELDS, FIELDS, st.integers(2, 150), st.integers(0, 40), st.data())
def test_records_of_one_layout(
    step_ms: int, key: bytes | None, value: bytes | None, count: int, flips: int, data: st.DataObject
) -> None:
    payload = bytearray(encode_records([SimpleRecord(step_ms * index, key, value) for index in range(count)], 0))
    check_agreement(bytes(payload), count)
    for _ in range(flips % 3):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    check_agreement(bytes(payload), count)


@pytest.mark.medium
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_many_records_of_equal_and_varying_lengths(seed: int) -> None:
    generator = random.Random(seed)
    records: list[SimpleRecord] = []
    while len(records) < 12_000:
        size = generator.choice([0, 3, 20, 50, 57, 60, 100, 8100])
        for _ in range(generator.choice([1, 3, 40, 700, 3000] if size < 8000 else [1, 3])):
            varied = size if generator.random() < 0.9 else size + 1
            headers = [("h", b"v")] * generator.choice([0] * 50 + [1, 2, 30])
            key = None if generator.random() < 0.01 else b"key"
            records.append(SimpleRecord(BASE_MS + len(records) // 100, key, bytes(varied), headers))
    payload = bytes(encode_records(records, BASE_MS))
    expected = RecordScan(True, 0, 0, (len(records) - 1) // 100, True)
    assert scan_in_python(payload, len(records)) == scan_with_numpy(payload, len(records)) == expected
    for _ in range(30):
        broken = bytearray(payload)
        broken[generator.randrange(len(broken))] ^= 1 << generator.randrange(8)
        count = len(records)
        assert outcome(scan_in_python, bytes(broken), count) == outcome(scan_with_numpy, bytes(broken), count)
    for count in (len(records) - 1, len(records) + 1):
        assert outcome(scan_in_python, payload, count) is outcome(scan_with_numpy, payload, count) is None


@pytest.mark.medium
@pytest.mark.parametrize(("count", "step_ms"), [(8193, 0), (16_390, 1), (40_000, -1)])
def test_many_records_of_one_layout(count: int, step_ms: int) -> None:
    """Their offset deltas take one, two and three bytes."""
    records = [SimpleRecord(BASE_MS + step_ms * (index // 100), b"key", bytes(50)) for index in range(count)]
    payload = bytes(encode_records(records, BASE_MS))
    last = step_ms * ((count - 1) // 100)
    expected = RecordScan(True, 0, min(0, last), max(0, last), False)
    assert scan_in_steps(payload, count, 16 if not step_ms else count) == scan_with_numpy(payload, count) == expected
    third_byte = payload.index(b"\x80\x80\x01") + 2
    for bit in range(8):
        broken = bytearray(payload)
        broken[third_byte] ^= 1 << bit
        assert outcome(scan_in_python, bytes(broken), count) == outcome(scan_with_numpy, bytes(broken), count)


def test_a_count_that_the_bytes_cannot_hold_is_refused_at_once() -> None:
    with pytest.raises(InvalidRecordError, match="do not fit"):
        scan_records(bytes(100), 0x7FFFFFFF)


def record(body: bytes) -> bytes:
    out = bytearray()
    append_varint(out, len(body))
    return bytes(out) + body


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(record(b"\0" * 4), id="stops before the headers"),
        pytest.param(record(b"\0\0\0\0\0\0\0"), id="a byte after the headers"),
        pytest.param(record(b"\0\0\0\1\1\1"), id="negative number of headers"),
        pytest.param(record(b"\0\0\0\1\1\x02\1\1"), id="negative header key"),
        pytest.param(record(b"\0\0\0\1\1\xfe\xff\xff\xff\x0f"), id="two billion headers"),
        pytest.param(record(b"\0\0\0\xfe\xff\xff\xff\x0f\1\0"), id="a key of two gigabytes"),
        pytest.param(record(b"\0\0\x80\x80\x80\x80\x80\0\1\1\0"), id="an offset of six bytes"),
        pytest.param(record(b"\0" + b"\x80" * 10 + b"\0\0\1\1\0"), id="a timestamp of eleven bytes"),
        pytest.param(b"\x01" + b"\0" * 8, id="negative length"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + b"\0" * 8, id="a record of two gigabytes"),
        pytest.param(b"\x80\x80\x80\x80\x80\x00" + b"\0" * 8, id="a length of six bytes"),
    ],
)
def test_malformed_records_are_refused(payload: bytes) -> None:
    check_agreement(payload, 1)
    assert outcome(scan_in_python, payload, 1) is None


@pytest.mark.medium
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\x00" * 1_000_000, id="empty records"),
        pytest.param(b"\x80" * 1_000_000, id="endless integer"),
        pytest.param(record(b"\0\0\0\1\1" + b"\xc0\x84\x3d" + b"\0\1" * 500_000), id="half a million headers"),
        pytest.param(record(b"\0\0\0\1\1" + b"\xc0\x84\x3d" + b"\0\1" * 499_999 + b"\1\1"), id="the last header broken"),
    ],
)
def test_hostile_megabytes_take_no_time(payload: bytes) -> None:
    started = time.process_time()
    for count in (1, NUMPY_THRESHOLD + 1, 142_857):
        with contextlib.suppress(InvalidRecordError):
            scan_records(payload, count)
    assert time.process_time() - started < 5
