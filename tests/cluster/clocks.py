"""The wall clocks of brokers, which can be set to another time: a library that is loaded before the C library tells it."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support.budget import patient

_SOURCE = Path(__file__).with_name("wall_clock.c")
_SECONDS = struct.Struct("=q")


def build_wall_clock(folder: Path) -> Path:
    """Compile the library into a folder, and return it; skip the test without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = folder / "wall_clock.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=patient(120))
    return library


class WallClock:
    """The clock of one program, which has to be started with ``environment``."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        file.write_bytes(_SECONDS.pack(0))
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_FILE": str(file)}

    def shift(self, seconds: int) -> None:
        """Set it to so many seconds after the real time, or before it."""
        with self._file.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))
