"""The faults of mutants.toml, and copies of the package that have one of them."""

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGE: Final = "twisted_kafka"
_LIST: Final = Path(__file__).with_name("mutants.toml")
_BESIDE: Final = ("tests", "pyproject.toml")


class Mutant(NamedTuple):
    """One fault."""

    part: str
    """``log``, ``replication``, ``controller`` or ``coordinators``."""
    name: str
    module: str
    """The path below the package."""
    was: str
    """A piece of text that occurs once in the module."""
    now: str

    @property
    def title(self) -> str:
        """The part and the name."""
        return f"{self.part}.{self.name}"

    def applied(self, text: str) -> str:
        """Return the module's text with the fault. Raises ValueError unless the piece of text occurs once."""
        if text.count(self.was) != 1:
            raise ValueError(f"{self.title}: the text occurs {text.count(self.was)} times in {self.module}")
        return text.replace(self.was, self.now)


def all_mutants() -> Iterator[Mutant]:
    """Return the faults of the list."""
    for part, mutants in tomllib.loads(_LIST.read_text()).items():
        for name, each in mutants.items():
            yield Mutant(part, name, each["module"], each["was"], each["now"])


def make_copy(directory: Path, mutant: Mutant | None) -> None:
    """Make a directory with a copy of the package that has this fault, if any, and with the tests."""
    shutil.copytree(ROOT / PACKAGE, directory / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _BESIDE:
        (directory / name).symlink_to(ROOT / name)
    if mutant is not None:
        path = directory / PACKAGE / mutant.module
        path.write_text(mutant.applied(path.read_text()))
