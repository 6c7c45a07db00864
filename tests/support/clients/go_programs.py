"""The programs of ``go/``, clients on franz-go and sarama."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.clients.clients import PROGRAMS, run

_BUILD_S = 600


def go_program(folder: Path, package: str) -> str:
    """Build a package of ``go/`` into a folder; return the program's path. Skip the test if it cannot be built here."""
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go")
    program = folder / f"{package}-go"
    if not program.exists():
        try:
            run([go, "build", "-o", str(program), f"./{package}"], cwd=PROGRAMS / "go", timeout_s=_BUILD_S)
        except AssertionError as error:
            if "dial tcp" in str(error) or "proxy" in str(error):
                pytest.skip(f"Go's modules cannot be had: {error}")
            raise
    return str(program)
