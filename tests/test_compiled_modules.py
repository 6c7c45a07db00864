"""What mypyc is given (``tool.twisted_kafka.compiled``): modules that exist, with classes that it can compile."""

import enum
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["twisted_kafka"]["compiled"]
CAN_BE_BASES = (tuple, dict, BaseException, enum.Enum, int)
"""Named tuples are tuples, typed dicts are dicts. A compiled subclass of any other class written in C crashes when it is made."""


@pytest.mark.parametrize("path", MODULES)
def test_no_class_is_a_subclass_of_what_is_written_in_c(path: str) -> None:
    assert (ROOT / path).is_file()
    name = path.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    foreign = {
        (class_.__name__, base.__name__)
        for _, class_ in inspect.getmembers(module, inspect.isclass)
        if class_.__module__ == name
        for base in class_.__bases__
        if not base.__module__.startswith(("twisted_kafka.", "typing"))
        and not issubclass(base, CAN_BE_BASES)
        and base is not object
    }
    assert not foreign, "mypyc cannot compile these: put them into a module that is not in the list"


def test_every_module_is_listed_once() -> None:
    assert len(MODULES) == len(set(MODULES))
