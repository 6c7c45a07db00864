"""CRC-32C, by the extension module and as it is computed where extension modules are emulated."""

import random

import pytest

from twisted_kafka.protocol.records import checksums


@pytest.mark.parametrize("crc32c", [checksums.crc32c, checksums._load_for_emulation()], ids=["here", "emulated"])
def test_known_values_at_every_length_that_takes_another_path(crc32c: checksums.Checksum) -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the CRC catalogue
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    data = random.Random(1).randbytes(140_000)
    for size in (0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 131_073, 140_000):
        part = memoryview(bytearray(data))[:size]
        assert crc32c(part) == crc32c(bytes(part)) == _bit_by_bit(part)


def _bit_by_bit(data: memoryview) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
