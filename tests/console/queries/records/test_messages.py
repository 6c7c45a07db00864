from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.console import make_topic, write
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.bounds import Bounds
from twisted_kafka.console.queries.records import messages as messages_module
from twisted_kafka.console.queries.records.messages import Message, MessagesAsked, message, messages
from twisted_kafka.console.queries.records.tail import MOST_EACH_TIME, tail
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.timing.clock import ManualClock

CLOCK = ManualClock()


def record(number: int, partition: int = 0) -> Written:
    return Written(f"k{number % 7}".encode(), f'{{"customer":{{"id":{number}}}}}'.encode(), (), 1_000 + number, partition)


def places(items: Sequence[Message]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in items]


@pytest.fixture
def topic(session: Session, name: Callable[[str], str]) -> str:
    topic = make_topic(session, name("orders"), 3)
    write(session, topic, [record(number, number % 3) for number in range(300)])
    return topic


@pytest.mark.medium
@pytest.mark.parametrize("start", ["newest", "earliest"])
def test_the_pages_have_each_record_once(session: Session, topic: str, start: str) -> None:
    found: list[tuple[int, int]] = []
    cursor = ""
    for _ in range(7):
        page = messages(session, CLOCK, MessagesAsked(topic, start=start, cursor=cursor, count=50))
        found += places(page.items)
        cursor = page.following
        if not cursor:
            break
    assert sorted(found) == [(partition, offset) for partition in range(3) for offset in range(100)]
    assert not cursor


def test_the_newest_are_first(session: Session, topic: str) -> None:
    page = messages(session, CLOCK, MessagesAsked(topic, count=4))
    assert [each.timestamp_ms for each in page.items] == [1299, 1298, 1297, 1296]
    assert page.scanned < 100
    assert not page.stopped


def test_a_position_is_where_a_page_begins(session: Session, topic: str) -> None:
    page = messages(session, CLOCK, MessagesAsked(topic, partitions=(1,), start="98"))
    assert places(page.items) == [(1, 98), (1, 99)]
    assert places(messages(session, CLOCK, MessagesAsked(topic, partitions=(1,), start="-1")).items) == [(1, 99)]


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"key": "k3", "where": ("value.customer.id<20",)}, {3, 10, 17}),
        ({"key": "0x6b33", "where": ("value.customer.id<=10",)}, {3, 10}),
        ({"where": ("value.customer.id>=297",)}, {297, 298, 299}),
        ({"where": ("value.customer.id=7", "key=k0")}, {7}),
        ({"where": ("value~{",), "search": 'ID":299'}, {299}),
        ({"where": ("value.nothing=1",)}, set()),
        ({"where": ("offset<2", "partition=1", "timestamp>1001")}, {4}),
    ],
)
def test_conditions(session: Session, topic: str, asked: dict[str, Any], numbers: set[int]) -> None:
    for start in ("newest", "earliest"):
        page = messages(session, CLOCK, MessagesAsked(topic, start=start, **asked))
        assert {each.timestamp_ms - 1_000 for each in page.items} == numbers
        assert not page.following


def test_a_search_stops_and_goes_on(session: Session, topic: str) -> None:
    few = Bounds(records=120)
    for start in ("newest", "earliest"):
        asked = MessagesAsked(topic, start=start, where=("value.customer.id=150",))
        found: list[Message] = []
        cursor, stops = "", 0
        for _ in range(10):
            page = messages(session, CLOCK, MessagesAsked(topic, start=start, where=asked.where, cursor=cursor), few)
            found += page.items
            stops += page.stopped == "after 120 records"
            cursor = page.following
            if not cursor:
                break
        assert len(found) == 1
        assert stops >= 2


@pytest.mark.medium
def test_records_larger_than_the_budget_still_come_one_by_one(session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("large"))
    for number in range(20):
        write(session, topic, [Written(None, b"%d" % number * 3_000, (), number)])
    found, cursor = [], ""
    for _ in range(30):
        page = messages(session, CLOCK, MessagesAsked(topic, cursor=cursor), Bounds(size_bytes=2_000))
        assert page.items
        found += places(page.items)
        cursor = page.following
        if not cursor:
            break
    assert found == [(0, offset) for offset in reversed(range(20))]


def test_a_record_in_full(session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("forms"))
    hostile = "<script>\u202e\u0000".encode()
    headers = [("h", b"v"), ("null", None), *(("more", b"x") for _ in range(100))]
    write(session, topic, [Written(None, b"x" * 50_000, headers, 5), Written(b"\xff\x00", hostile, (), 6)], Compression.ZSTD)
    first = message(session, topic, 0, 0)
    assert (first.key.form, len(first.value.text), first.value.is_cut, first.compression) == ("null", 50_000, False, "zstd")
    assert first.headers[0][1].text == "v"
    assert first.headers[1][1].form == "null"
    assert (len(first.headers), first.more_headers) == (50, 52)
    assert first.producer_id >= 0
    listed = messages(session, CLOCK, MessagesAsked(topic, start="earliest")).items
    assert (len(listed[0].value.text), listed[0].value.is_cut, listed[0].value.size_bytes) == (2_000, True, 50_000)
    assert (listed[1].key.text, listed[1].key.form) == ("ff00", "hex")
    assert listed[1].value.text == hostile.hex()
    text = messages(session, CLOCK, MessagesAsked(topic, start="1", form="text")).items[0].value
    assert (text.text, text.form) == (hostile.decode(), "text")
    with pytest.raises(CommandError, match="has no record with offset 7"):
        message(session, topic, 0, 7)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"start": "yesterday"}, "not a position"),
        ({"where": ("value",)}, "not a condition"),
        ({"where": ("offset=x",)}, "is a number"),
        ({"where": ("topic=x",)}, "not a field"),
        ({"key": "0xz"}, "hex"),
        ({"cursor": "a"}, "the cursor"),
        ({"cursor": "9:1"}, "the cursor"),
        ({"where": ("key=1",) * 21}, "at most 20"),
    ],
)
def test_what_cannot_be_read(session: Session, topic: str, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        messages(session, CLOCK, MessagesAsked(topic, **asked))


def test_counts_and_partitions_have_limits(session: Session, topic: str) -> None:
    with pytest.raises(ValueError, match="1 to 500"):
        MessagesAsked(topic, count=501)
    with pytest.raises(CommandError, match="has no partition 3"):
        messages(session, CLOCK, MessagesAsked(topic, partitions=(3,)))


@pytest.mark.medium
def test_a_tail_tells_what_it_skips(session: Session, topic: str) -> None:
    begin = tail(session, CLOCK, MessagesAsked(topic))
    assert (begin.items, begin.skipped) == ((), 0)
    write(session, topic, [record(300, 1)])
    part = tail(session, CLOCK, MessagesAsked(topic), begin.cursor)
    assert (places(part.items), part.skipped) == ([(1, 100)], 0)
    assert tail(session, CLOCK, MessagesAsked(topic), part.cursor).items == ()
    write(session, topic, [record(number, 2) for number in range(1_000)])
    late = tail(session, CLOCK, MessagesAsked(topic), part.cursor)
    assert len(late.items) == MOST_EACH_TIME // 3
    assert late.skipped == 1_000 - len(late.items)
    assert late.items[-1].offset == 1_099


@pytest.mark.parametrize("start", ["newest", "earliest"])
@pytest.mark.parametrize("offset", [101, 2**62, 2**63, 10**30])
def test_a_cursor_beyond_the_end_is_at_the_end(session: Session, topic: str, start: str, offset: int) -> None:
    page = messages(session, CLOCK, MessagesAsked(topic, partitions=(0,), start=start, cursor=f"0:{offset}", count=3))
    assert places(page.items) == ([(0, 99), (0, 98), (0, 97)] if start == "newest" else [])


def test_a_search_among_aborted_records_ends_in_time(session: Session, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is seen, so none is counted."""
    clock = ManualClock()

    class Aborted:
        fetches = 0

        def __init__(self, _session: Any, positions: Any, *_: Any) -> None:
            self.positions = dict(positions)

        def fetch(self) -> Sequence[Any]:
            Aborted.fetches += 1
            clock.advance_ms(1_000)
            return ()

    monkeypatch.setattr(messages_module, "Reader", Aborted)
    page = messages(session, clock, MessagesAsked(topic), Bounds(seconds=3.0))
    assert (page.items, page.stopped, Aborted.fetches) == ((), "after 3 s", 3)
