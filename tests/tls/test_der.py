"""DER: what is read is what was written, and nothing else is read."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twisted_kafka.tls import der
from twisted_kafka.tls.der import OCTET_STRING, SEQUENCE, DerError, dotted, element, elements, expect


def encoded(tag: int, contents: bytes, size: int | None = None) -> bytes:
    """Encode an element; with ``size``, its length has so many bytes."""
    if size is None and len(contents) < 128:
        return bytes([tag, len(contents)]) + contents
    size = size or (len(contents).bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + len(contents).to_bytes(size, "big") + contents


@given(st.integers(0, 255), st.binary(max_size=20), st.binary(max_size=3), st.sampled_from([None, 1, 2, 3, 4]))
@example(4, bytes(127), b"", None)
@example(4, bytes(128), b"", None)
@example(4, bytes(255), b"x", None)
@example(4, bytes(256), b"", None)
@example(4, bytes(70_000), b"", None)
def test_an_element_is_its_tag_its_contents_and_its_end(tag: int, contents: bytes, after: bytes, size: int | None) -> None:
    data = b"before" + encoded(tag, contents, size)
    assert element(data + after, 6) == (tag, contents, len(data))
    assert expect(data + after, tag, 6) == (contents, len(data))
    with pytest.raises(DerError, match="instead of"):
        expect(data, tag ^ 1, 6)
    for cut in range(6, min(len(data), 40)):
        with pytest.raises(DerError):
            element(data[:cut], 6)
    with pytest.raises(DerError):
        element(data[:-1], 6)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65_535, 65_536])
def test_an_element_is_written_with_the_shortest_length(size: int) -> None:
    assert der.encoded(OCTET_STRING, bytes(size)) == encoded(OCTET_STRING, bytes(size))


@pytest.mark.parametrize("length", [b"\x80", b"\x85\0\0\0\0\0", b"\xff", b"\x82\1", b"\x84\0\0\0"])
def test_a_length_has_one_to_four_bytes(length: bytes) -> None:
    with pytest.raises(DerError):
        element(b"\4" + length)


@given(st.lists(st.binary(max_size=5), max_size=4))
def test_elements_are_all_of_one_tag(items: list[bytes]) -> None:
    contents = b"".join(encoded(OCTET_STRING, item) for item in items)
    assert list(elements(contents, OCTET_STRING)) == items
    with pytest.raises(DerError):
        list(elements(contents + encoded(SEQUENCE, b""), OCTET_STRING))


@given(st.integers(0, 2), st.integers(0, 39), st.lists(st.integers(0, 2**40), max_size=4))
@example(2, 999, [])
@example(2, 48, [127, 128, 16383, 16384])
def test_an_object_identifier_in_dotted_notation(first: int, second: int, rest: list[int]) -> None:
    data = b""
    for number in (40 * first + second, *rest):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        data += bytes(reversed(groups))
    assert dotted(data) == ".".join(map(str, (first, second, *rest)))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_an_object_identifier_has_a_number(data: bytes) -> None:
    with pytest.raises(DerError, match="empty"):
        dotted(data)
