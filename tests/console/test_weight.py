"""What the console adds to a plain ``pip install``: less than a megabyte to download, and one dependency."""

import re
import sys
import zlib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest

import twisted_kafka

pytestmark = pytest.mark.medium

PACKAGE = Path(twisted_kafka.__file__).parent
CONSOLE = PACKAGE / "console"
MEGABYTE = 1_000_000
IMPORT = re.compile(r"^ *(?:from|import) ([a-z_]\w*)\b(?=[\w., ]* import | as |,|\.|$)", re.MULTILINE)
ITS_OWN = {"jinja2", "markupsafe"}
"""Jinja2, and the package that Jinja2 itself needs."""
OF_EXTRAS = {"google"}
"""Loaded on demand, and installed with an extra."""


def test_what_pip_downloads_for_the_console_is_less_than_a_megabyte() -> None:
    files = [each for each in CONSOLE.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    for name in ITS_OWN:
        files += [Path(str(each.locate())) for each in distribution(name).files or () if each.suffix != ".pyc"]
    assert sum(len(zlib.compress(each.read_bytes())) for each in files if each.is_file()) < MEGABYTE


def test_the_console_has_one_dependency_of_its_own() -> None:
    mine = imported(CONSOLE.rglob("*.py"))
    others = imported(each for each in PACKAGE.rglob("*.py") if CONSOLE not in each.parents)
    assert mine - others - OF_EXTRAS - set(sys.stdlib_module_names) == ITS_OWN


def imported(paths: Iterable[Path]) -> set[str]:
    """The packages that modules import."""
    return {name for path in paths for name in IMPORT.findall(path.read_text())}
