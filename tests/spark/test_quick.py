"""The reader by position and the JSON reader give the same records."""

import random
import re
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import numpy as np
import pyarrow as pa

from tests.spark.access_lines import line, topic
from twisted_kafka_spark.records.frame import AMOUNTS, IDENTITY, Coded, Frame, concatenated, from_batch
from twisted_kafka_spark.records.lines import LineReader
from twisted_kafka_spark.records.quick import QuickReader

ROUNDS = 3000


def values(column: Coded) -> list[Any]:
    found: list[Any] = column.values.take(pa.array(column.codes)).to_pylist()
    return found


def rows(frame: Frame) -> list[dict[str, Any]]:
    """Return the records of a frame."""
    identities = frame.identities.take(pa.array(frame.identity)).to_pylist()
    topics: list[list[dict[str, Any]]] = [[] for _ in identities]
    inner = zip(
        frame.topics.parent.tolist(),
        values(frame.topics.topic),
        values(frame.topics.error),
        frame.topics.records.tolist(),
        frame.topics.bytes.tolist(),
        values(frame.topics.partitions),
        strict=True,
    )
    for parent, name, error, records, size, ids in inner:
        topics[parent].append({"topic": name, "error": error, "records": records, "bytes": size, "partitions": ids})
    columns = {"time_us": frame.time_us, "weight": frame.weight, "sequence": frame.sequence, **frame.amounts}
    return [
        {**identity, "error": error, "group": group, "topics": topics[at], **{name: int(of[at]) for name, of in columns.items()}}
        for at, (identity, error, group) in enumerate(zip(identities, values(frame.error), values(frame.group), strict=True))
    ]


def by_position(reader: QuickReader, texts: list[str]) -> tuple[list[dict[str, Any]], list[int]]:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([len(each) for each in encoded])
    frame, others = reader.read(b"".join(encoded), np.append(0, ends[:-1]), ends - 1)
    return (rows(frame) if frame is not None else []), others.tolist()


def by_json(texts: list[str]) -> list[dict[str, Any]]:
    batches = LineReader().records(pa.array([text.rstrip("\n") for text in texts]))
    return [row for batch in batches for row in rows(from_batch(batch))]


def made_up(chosen: random.Random) -> str:
    names = ["orders", "", 'a"b', "x\\", "zürich", "{[", "]}", '","partitions":', "a" * 249, "null", "9"]
    errors = [None, None, None, "NOT_LEADER_OR_FOLLOWER", "X"]
    number = [0, 7, 99_999_999, 100_000_000, 1234567890123, 10**14]
    topics = [topic(chosen.choice(names), chosen.choice(number), chosen.choice(errors)) for _ in range(chosen.choice([0, 1, 1, 3]))]
    ids = [{}, {}, {"partition_ids": [0]}, {"partition_ids": [12, 3, 1000]}]
    topics = [each | chosen.choice(ids) for each in topics]
    more: list[dict[str, Any]] = [
        {},
        {"acks": -1},
        {"acks": 0, "group_id": "]}"},
        {"group_id": chosen.choice(names), "member_id": 'm"', "generation": 12},
    ]
    fields = {name: chosen.choice(number) for name in AMOUNTS}
    last: dict[str, Any] = {"sequence": chosen.choice(number)} | ({"weight": 10} if chosen.random() < 0.2 else {})
    if chosen.random() < 0.05:
        last = {"topics_left_out": 3} | last
    else:
        last = chosen.choice(more) | last
    return line(
        chosen.choice(["Produce", "Fetch"]),
        chosen.randrange(60),
        v=chosen.choice([1, 2]),
        client_id=chosen.choice([None, *names]),
        principal=chosen.choice(["User:CN=a,OU=b", "User:ANONYMOUS"]),
        version=chosen.choice([0, 17]),
        error=chosen.choice(errors),
        **fields,
        topics=topics,
        **last,
    )


def test_every_line_of_the_broker_is_read_like_json() -> None:
    chosen, reader = random.Random(1), QuickReader()
    for _ in range(20):
        texts = [made_up(chosen) for _ in range(100)]
        found, others = by_position(reader, texts)
        left = ["topics_left_out" in text or '"group_id":"]}"' in text for text in texts]
        assert others == [at for at, is_left in enumerate(left) if is_left]
        assert found == by_json([text for text, is_left in zip(texts, left, strict=True) if not is_left])


@pytest.mark.slow
def test_a_damaged_line_is_rejected_or_read_like_json() -> None:
    chosen, reader = random.Random(2), QuickReader()
    taken = 0
    for _ in range(ROUNDS):
        good = made_up(chosen)
        at = chosen.randrange(len(good) - 1)
        kind = chosen.randrange(4)
        if kind == 0:
            bad = good[:at] + chosen.choice('",:{}[]0 9a-\\') + good[at + 1 :]
        elif kind == 1:
            bad = good[:at] + good[at + 1 + chosen.randrange(30) :]
        elif kind == 2:
            bad = good[: at + 1] + "\n"
        else:
            bad = good[: at + 1] + made_up(chosen)
        bad = bad.replace("\n", "") + "\n"
        found, others = by_position(reader, [good, bad, good])
        if 1 not in others:
            taken += 1
            without_zeros = re.sub(r"\":0+(?=\d)", '":', bad)  # such as 007, which is no JSON and does no harm
            assert [found[1 - (0 in others)]] == by_json([without_zeros]), bad
        assert len(found) + len(others) == 3
    assert taken > ROUNDS / 20  # a digit for a digit is no damage


@pytest.mark.parametrize("text", ["", "x", "{", '{"v":1}', "[1]", '{"v":1,"time":"', "]" * 3000, '{"topic":"' * 50])
def test_other_lines_are_rejected(text: str) -> None:
    assert by_position(QuickReader(), [text + "\n"]) == ([], [0])
    mine = line("Fetch", 1, sequence=5)
    found, others = by_position(QuickReader(), [mine, text + "\n", mine])
    assert (found, others) == (by_json([mine, mine]), [1])


def test_identity_is_that_of_the_broker() -> None:
    (found,), _ = by_position(QuickReader(), [line("Fetch", 1, sequence=5, client_id=None)])
    assert {name: found[name] for name in IDENTITY} == {
        "node": 1,
        "listener": "PLAINTEXT",
        "protocol": "PLAINTEXT",
        "connection": "127.0.0.1:9092-127.0.0.1:40000-0",
        "principal": "User:ANONYMOUS",
        "client_id": None,
        "software": "librdkafka",
        "software_version": "2.0.2",
        "api": "Fetch",
        "version": 7,
    }


def test_blocks_of_one_reader_share_their_names_also_between_other_lines() -> None:
    """Otherwise a name that occurs in every block would be there, and be grouped, once per block."""
    texts = [
        line("Fetch", number % 60, sequence=number, client_id=f"client-{number % 7}", topics=[topic(f"topic-{number % 5}", 1)])
        for number in range(90)
    ]
    texts[40] = texts[40].replace("{", "{ ", 1)  # read by the JSON reader
    reader = LineReader()
    frames = [frame for at in range(0, 90, 10) for frame in reader.frames_of_block("".join(texts[at : at + 10]).encode())]
    whole = concatenated(frames)
    assert sorted(rows(whole), key=str) == sorted(by_json(texts), key=str)
    assert (len(frames), whole.identities.num_rows, len(whole.topics.topic.values)) == (10, 7 + 1, 5 + 1)


def test_the_api_is_found_whatever_the_names_before_it_contain() -> None:
    texts = [
        line("Fetch", 1, sequence=5, client_id=name) for name in ('x","api":"y', ',"api":"Produce","api_key":0,"version":1', "api")
    ]
    found, others = by_position(QuickReader(), texts)
    assert (found, others) == (by_json(texts), [])


@pytest.mark.parametrize("twice", ['"api":"Produce","node":1', '"node":1,"version":3'])
def test_a_line_with_a_field_twice_is_left_to_the_json_reader(twice: str) -> None:
    mine = line("Fetch", 1, sequence=5)
    _, others = by_position(QuickReader(), [mine, mine.replace('"node":1', twice, 1), mine])
    assert others == [1]


def test_pairs_beyond_the_room_for_them_are_left_to_the_json_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [line("Fetch", 1, sequence=number, client_id=f"client-{number}") for number in range(8)]
    monkeypatch.setattr("twisted_kafka_spark.records.quick._MOST_PAIRS", 10)
    reader = QuickReader()
    assert by_position(reader, texts[:2]) == (by_json(texts[:2]), [])
    assert by_position(reader, texts) == ([], list(range(8)))
    lines = LineReader()
    assert [len(frame) for frame in lines.frames_of_block("".join(texts).encode())] == [8]
