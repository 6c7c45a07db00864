"""CRC-32C, the checksum of format 2 (formats 0 and 1 use zlib's CRC-32).

The package ``crc32c`` looks up its own version when it is imported, which takes 50 ms and loads the e-mail parser. Its extension
module is loaded directly instead; the ordinary import is the fallback, in case the package's layout changes.
"""

from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system.interpreter import EMULATES_C_API

Checksum = Callable[[Buffer], int]

_SAMPLES = (b"", b"123456789", bytes(1_000), bytearray(range(256)) * 300)


def _extension() -> ModuleSpec | None:
    package = find_spec("crc32c")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("_crc32c.*"):
            if path.suffix in (".so", ".pyd"):
                return spec_from_file_location("crc32c._crc32c", path)
    return None


def _load() -> Any:
    spec = _extension()
    if spec is None or spec.loader is None:
        import crc32c as package

        return package
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_for_emulation() -> Checksum:
    """Return the C function inside the extension module if it works correctly, otherwise the module's own function, for bytes.

    A call through the emulation takes some microseconds, and the memory of a buffer is freed late.
    """
    module = _load()

    def by_module(data: Buffer) -> int:
        value: int = module.crc32c(bytes(data))
        return value

    try:
        checksum = _direct(module.__file__, is_by_hardware=module.hardware_based)
    except (AttributeError, OSError):
        return by_module
    return checksum if all(checksum(sample) == by_module(sample) for sample in _SAMPLES) else by_module


def _direct(library: str, *, is_by_hardware: bool) -> Checksum:
    from twisted_kafka.system.foreign import BYTES, SIZE, UINT32, argument, load_function

    name = "_crc32c_hw_adler" if is_by_hardware else "_crc32c_sw_slicing_by_8"
    function = load_function(library, name, UINT32, UINT32, BYTES, SIZE)

    def checksum(data: Buffer) -> int:
        value: int = function(0xFFFFFFFF, argument(data), len(data))
        return value ^ 0xFFFFFFFF

    return checksum


crc32c: Checksum = _load_for_emulation() if EMULATES_C_API else _load().crc32c
"""Return the unsigned CRC-32C of a buffer; takes about 50 us per MB with the CPU's instruction."""
