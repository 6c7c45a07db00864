import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.network.connection.framing import FIRST_ALLOCATION_BYTES, FrameReader, InvalidReceiveError


def prefixed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=10), st.booleans())
def test_any_cutting_gives_the_same_frames(frames: list[bytes], cuts: list[int], into_place: bool) -> None:
    stream = b"".join(map(prefixed, frames))
    reader = FrameReader(1000)
    got: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        turn += 1
        view = reader.get_buffer() if into_place else None
        if view is None:
            chunk = stream[position : position + size]
            got.extend(map(bytes, reader.feed(chunk)))
        else:
            with view:
                chunk = stream[position : position + min(size, len(view))]
                view[: len(chunk)] = chunk
            got.extend(map(bytes, reader.buffer_updated(len(chunk))))
        position += len(chunk)
    assert got == frames
    assert reader.held_bytes == 0


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
    assert isinstance(frames[0], bytearray)


def test_a_size_alone_costs_no_memory() -> None:
    reader = FrameReader(100 * 1024 * 1024)
    reader.feed(struct.pack(">i", 100 * 1024 * 1024) + b"x")
    view = reader.get_buffer()
    assert view is not None
    assert len(view) < FIRST_ALLOCATION_BYTES <= 16 * 1024


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(InvalidReceiveError, match=f"size = {size}"):
        FrameReader(1000).feed(struct.pack(">i", size) + b"abc")


def test_empty_frame() -> None:
    assert list(FrameReader(10).feed(b"\0\0\0\0")) == [b""]
