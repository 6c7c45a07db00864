"""CRC-32C, the checksum of format 2 (formats 0 and 1 use zlib's CRC-32).

The package ``crc32c`` looks up its own version when it is imported, which takes 50 ms and loads the e-mail parser. Its extension
module is loaded directly instead; the ordinary import is the fallback, in case the package's layout changes.
"""

from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from twisted_kafka.interpreter import EMULATES_C_API
from twisted_kafka.protocol.regions import Buffer

Checksum = Callable[[Buffer], int]

_POLYNOMIAL = 0x82F63B78
_IN_PYTHON_BYTES = 256
"""Up to this size, a compiled loop takes less time than a call into the extension module."""
_CHUNK_BYTES = 65_536
"""Copies of this size are freed with the nursery, larger ones only by a major collection."""


def _extension() -> ModuleSpec | None:
    package = find_spec("crc32c")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("_crc32c.*"):
            if path.suffix in (".so", ".pyd"):
                return spec_from_file_location("crc32c._crc32c", path)
    return None


def _load() -> Callable[..., int]:
    spec = _extension()
    if spec is None or spec.loader is None:
        import crc32c as package

        return package.crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.crc32c  # type: ignore[no-any-return]


def _table() -> list[int]:
    values = list(range(256))
    for _ in range(8):
        values = [value >> 1 ^ (_POLYNOMIAL if value & 1 else 0) for value in values]
    return values


def _load_for_emulation() -> Checksum:
    """Return a function that passes nothing but short byte strings to the extension module."""
    extension: Callable[[bytes, int], int] = _load()
    table = _table()

    def checksum(data: Buffer) -> int:
        size = len(data)
        if size > _IN_PYTHON_BYTES:
            value = 0
            for start in range(0, size, _CHUNK_BYTES):
                value = extension(bytes(data[start : start + _CHUNK_BYTES]), value)
            return value
        value = 0xFFFFFFFF
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 0xFF]
        return value ^ 0xFFFFFFFF

    return checksum


crc32c: Checksum = _load_for_emulation() if EMULATES_C_API else _load()
"""Return the unsigned CRC-32C of a buffer; takes about 50 us per MB with the CPU's instruction."""
