import itertools
import random
import struct
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.network.connection import framing
from twisted_kafka.network.connection.framing import FIRST_ALLOCATION_BYTES, FrameBuffers, FrameReader, InvalidReceiveError
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.regions import Buffer

PRODUCE = ApiKey.PRODUCE.to_bytes(2, "big")


def prefixed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def receive(reader: FrameReader, stream: bytes, cuts: list[int], *, into_place: bool) -> Iterator[Sequence[Buffer]]:
    """Feed a stream to a reader in pieces of these sizes, again and again; yield the frames that each completes."""
    position = 0
    for size in itertools.cycle(cuts):
        if position == len(stream):
            return
        view = reader.get_buffer() if into_place else None
        if view is None:
            chunk = stream[position : position + size]
            ready = reader.feed(chunk)
        else:
            with view:
                chunk = stream[position : position + min(size, len(view))]
                view[: len(chunk)] = chunk
            ready = reader.buffer_updated(len(chunk))
        position += len(chunk)
        yield ready


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=10), st.booleans())
def test_any_cutting_gives_the_same_frames(frames: list[bytes], cuts: list[int], into_place: bool) -> None:
    reader = FrameReader(1000)
    got: list[bytes] = []
    for ready in receive(reader, b"".join(map(prefixed, frames)), cuts, into_place=into_place):
        got.extend(map(bytes, ready))
    assert got == frames
    assert reader.held_bytes == 0


@given(st.lists(st.binary(max_size=40), max_size=40), st.lists(st.integers(1, 300), min_size=1, max_size=10), st.booleans())
def test_frames_are_cut_a_few_at_a_time(frames: list[bytes], cuts: list[int], is_cut_early: bool) -> None:
    reader = FrameReader(1000, most_cut=3)
    got: list[bytes] = []
    for ready in receive(reader, b"".join(map(prefixed, frames)), cuts, into_place=False):
        assert len(ready) <= 4, "three, and the one that was begun before"
        got.extend(map(bytes, ready))
        while is_cut_early and reader.uncut:
            got.extend(map(bytes, reader.cut()))
    while reader.uncut:
        got.extend(map(bytes, reader.cut()))
    assert got == frames
    assert reader.held_bytes == 0


@given(st.lists(st.binary(max_size=300), max_size=6), st.lists(st.integers(1, 90), min_size=1, max_size=10), st.booleans())
def test_it_says_what_it_holds_of_the_incomplete_frame(frames: list[bytes], cuts: list[int], into_place: bool) -> None:
    stream = b"".join(map(prefixed, frames))
    starts = [0]
    for each in frames:
        starts.append(starts[-1] + 4 + len(each))
    got: list[bytes] = []
    position = turn = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "FIRST_ALLOCATION_BYTES", 16)
        reader = FrameReader(300)
        while position < len(stream):
            size = cuts[turn % len(cuts)]
            turn += 1
            view = reader.get_buffer() if into_place else None
            if view is None:
                chunk = stream[position : position + size]
                got.extend(map(bytes, reader.feed(chunk)))
            else:
                with view:
                    assert 0 < len(view) <= 300
                    chunk = stream[position : position + min(size, len(view))]
                    view[: len(chunk)] = chunk
                got.extend(map(bytes, reader.buffer_updated(len(chunk))))
            position += len(chunk)
            assert got == frames[: len(got)]
            begun = position - starts[len(got)]
            if begun < 4:
                assert (reader.held_bytes, reader.frame_bytes, reader.get_buffer()) == (begun, 0, None)
            else:
                assert (reader.held_bytes, reader.frame_bytes) == (begun - 4, len(frames[len(got)]))
    assert got == frames


def test_a_buffer_starts_small_and_grows_up_to_its_frame() -> None:
    reader = FrameReader(2**20)
    sizes = []
    reader.feed(struct.pack(">i", 2**20))
    frames: Sequence[Buffer] = ()
    while not frames:
        view = reader.get_buffer()
        assert view is not None
        with view:
            free = len(view)
        sizes.append(reader.held_bytes + free)
        frames = reader.buffer_updated(free)
    assert sizes == [2**12, 2**14, 2**16, 2**20]
    reader.feed(struct.pack(">i", 2**20) + bytes(5000))
    view = reader.get_buffer()
    assert view is not None
    assert len(view) == FIRST_ALLOCATION_BYTES


def test_a_buffer_grows_more_than_once_for_what_has_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "FIRST_ALLOCATION_BYTES", 16)
    data = random.Random(9).randbytes(1000)
    reader = FrameReader(1000)
    assert not reader.feed(prefixed(data)[:6])
    assert not reader.feed(data[2:700])
    assert reader.held_bytes == 700
    assert list(reader.feed(data[700:] + prefixed(b"next"))) == [data, b"next"]


def test_big_frame_grows_and_is_whole() -> None:
    data = random.Random(1).randbytes(3_000_000)
    reader = FrameReader(10_000_000)
    stream = prefixed(data)
    assert not reader.feed(stream[:100])
    position = 100
    sizes = set()
    while position < len(stream):
        view = reader.get_buffer()
        assert view is not None
        with view:
            count = min(len(view), 65536, len(stream) - position)
            view[:count] = stream[position : position + count]
        position += count
        frames = reader.buffer_updated(count)
        sizes.add(reader.held_bytes)
    assert frames == (data,)
    assert not memoryview(frames[0]).readonly


def test_a_size_alone_costs_no_memory() -> None:
    reader = FrameReader(100 * 1024 * 1024)
    reader.feed(struct.pack(">i", 100 * 1024 * 1024) + b"x")
    view = reader.get_buffer()
    assert view is not None
    assert len(view) <= FIRST_ALLOCATION_BYTES <= 16 * 1024


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_sizes_are_refused(size: int) -> None:
    for before in (b"", prefixed(b"whole")):
        with pytest.raises(InvalidReceiveError, match=f"size = {size}"):
            FrameReader(1000).feed(before + struct.pack(">i", size) + b"abc")
    with pytest.raises(InvalidReceiveError, match=f"size = {size}"):
        FrameReader(1000).feed(struct.pack(">i", size))


def test_the_largest_frame_is_allowed() -> None:
    for data in (bytes(1000), b""):
        assert list(FrameReader(1000).feed(prefixed(data))) == [data]
        assert list(FrameReader(1000).feed(prefixed(data) * 2)) == [data, data]
    assert list(FrameReader(0).feed(bytes(4))) == [b""]
    with pytest.raises(InvalidReceiveError, match="larger than 1000"):
        FrameReader(1000).feed(prefixed(bytes(1001)))


@pytest.mark.parametrize(
    ("first", "hint"),
    [(b"\x16\x03\x01\x02", "TLS"), (b"GET /", "HTTP"), (b"POST ", "HTTP"), (b"OPTIONS", "HTTP"), (b"\x16\x04\0\0", None)],
)
def test_a_client_of_another_protocol_is_recognized(first: bytes, hint: str | None) -> None:
    with pytest.raises(InvalidReceiveError) as caught:
        FrameReader(1000).feed(first)
    assert (hint or "larger than 1000)") in str(caught.value)
    assert hint or "speaks" not in str(caught.value)


def test_empty_frame() -> None:
    assert list(FrameReader(10).feed(b"\0\0\0\0")) == [b""]


@given(
    st.lists(st.binary(max_size=40) | st.binary(max_size=38).map(PRODUCE.__add__), max_size=8),
    st.lists(st.integers(1, 90), min_size=1, max_size=10),
    st.booleans(),
)
def test_frames_are_the_same_in_buffers_that_are_used_again(frames: list[bytes], cuts: list[int], into_place: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "LEAST_STEP_BYTES", 8)
        buffers = FrameBuffers(1000, 10)
        buffers.give_back(bytearray(b"." * 24))
        got: list[bytes] = []
        for ready in receive(FrameReader(1000, buffers), b"".join(map(prefixed, frames)), cuts, into_place=into_place):
            got.extend(map(bytes, ready))
            for frame in ready:
                buffers.give_back(frame)
        assert got == frames


def test_a_produce_request_that_arrives_with_others_has_a_buffer_from_some_size_on() -> None:
    buffers = FrameBuffers(1_000_000, 2000)
    reader = FrameReader(1_000_000, buffers)
    small, large = reader.feed(prefixed(PRODUCE + b"s" * 1997) + prefixed(PRODUCE + b"l" * 1998))
    (alone,) = reader.feed(prefixed(PRODUCE + b"a" * 1998))
    assert [bytes(frame[2:]) for frame in (small, large, alone)] == [b"s" * 1997, b"l" * 1998, b"a" * 1998]
    assert type(small) is bytes
    for frame in (large, alone):
        assert type(frame) is memoryview
        assert not frame.readonly
    buffers.give_back(large)
    (again,) = reader.feed(prefixed(PRODUCE + b"b" * 1999))
    assert type(again) is type(large) is memoryview
    assert again.obj is large.obj, "it is filled again"


def test_a_request_whose_handler_gives_no_buffer_back_has_none() -> None:
    fetch = ApiKey.FETCH.to_bytes(2, "big") + bytes(1300)
    reader = FrameReader(1_000_000, FrameBuffers(1_000_000, 1000))
    assert [type(frame) for frame in (*reader.feed(prefixed(fetch)), *reader.feed(prefixed(fetch) * 2))] == [bytes] * 3


def test_a_buffer_that_has_grown_is_kept_wherever_its_frame_was_cut() -> None:
    for size in (1_047_650, 1_048_576, 1_000_000, 16_500):
        stream = prefixed(bytes(size))
        for first in (4, 1000, 65_530, 65_536, size // 4, size - 1):
            buffers = FrameBuffers(16_000_000, 1000)
            *_, (frame,) = receive(FrameReader(2_000_000, buffers), stream, [first, 65_536], into_place=True)
            buffers.give_back(frame)
            assert buffers.kept_bytes == buffers.size_for(size), (size, first)


def test_a_buffer_is_used_for_one_frame_at_a_time() -> None:
    buffers = FrameBuffers(1_000_000, 0)
    size = buffers.size_for(9000)
    assert 9000 <= size <= 9000 * 5 / 4
    buffers.give_back(first := bytearray(size))
    buffers.give_back(memoryview(second := bytearray(size))[:9000])
    assert buffers.kept_bytes == 2 * size
    assert buffers.take(size + 1) is None
    assert buffers.take(1000) is None, "it would be wasted on so small a frame"
    assert buffers.take(size) is second
    assert buffers.take(9000) is first
    assert buffers.take(9000) is None
    assert buffers.kept_bytes == 0


@pytest.mark.medium
def test_there_are_few_sizes_of_buffers() -> None:
    buffers = FrameBuffers(1_000_000, 0)
    sizes = {frame_bytes: buffers.size_for(frame_bytes) for frame_bytes in (*range(20_000), *range(20_000, 1_000_000, 17))}
    boundaries = set(sizes.values())
    sizes |= {near: buffers.size_for(near) for size in boundaries for near in range(size - 2, size + 3) if 0 <= near < 1_000_000}
    assert all(frame_bytes <= size for frame_bytes, size in sizes.items())
    assert all(size <= 5 / 4 * frame_bytes for frame_bytes, size in sizes.items() if frame_bytes > 8192)
    assert sizes[1025] == 2048
    assert len(set(sizes.values())) < 50
    assert all(buffers.size_for(size) == size for size in set(sizes.values()))
    assert FrameBuffers(0, 0).size_for(1025) == 1025, "where none is kept, none is larger than its frame"


def test_the_buffers_kept_are_bounded() -> None:
    buffers = FrameBuffers(20_480, 0)
    for size in (4096, 4096, 5120, 5120, 2048):
        buffers.give_back(bytearray(size))
    assert buffers.kept_bytes == 20_480
    buffers.give_back(bytearray(6144))  # more than a quarter of all
    buffers.give_back(bytearray(2000))  # not a size of theirs
    buffers.give_back(bytes(2048))
    buffers.give_back(memoryview(bytes(2048)))
    assert buffers.kept_bytes == 20_480
    buffers.give_back(bytearray(1024))
    assert buffers.kept_bytes == 1024, "when there is no room left, the others go"
    assert buffers.take(5120) is None
    assert buffers.take(1000) is not None
