"""CRC-32C, by the extension module and as it is computed where extension modules are emulated."""

import random
from functools import cache
from itertools import pairwise

import pytest

from twisted_kafka.protocol.records import checksums

pytestmark = pytest.mark.medium

_ENDS = (0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 131_073, 140_000)


@pytest.mark.parametrize("crc32c", [checksums.crc32c, checksums._load_for_emulation()], ids=["here", "emulated"])
def test_known_values_at_every_length_that_takes_another_path(crc32c: checksums.Checksum) -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the CRC catalogue
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    data, known = _bit_by_bit()
    for end in _ENDS:
        part = memoryview(bytearray(data))[:end]
        assert crc32c(part) == crc32c(bytes(part)) == known[end]


@cache
def _bit_by_bit() -> tuple[bytes, dict[int, int]]:
    """Return random bytes, and the checksum of those before each of ``_ENDS``."""
    data = random.Random(1).randbytes(_ENDS[-1])
    value, known = 0xFFFFFFFF, {0: 0}
    for start, end in pairwise(_ENDS):
        for byte in data[start:end]:
            value ^= byte
            for _ in range(8):
                value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        known[end] = value ^ 0xFFFFFFFF
    return data, known
