"""What mypyc is given (``tool.twisted_kafka.compiled``): modules that exist, with classes that it can compile."""

import enum
import importlib
import inspect
import pkgutil
import tomllib
from pathlib import Path

import twisted_kafka
from tests.cases import case

ROOT = Path(__file__).resolve().parents[1]
MODULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["twisted_kafka"]["compiled"]
CAN_BE_BASES = (tuple, dict, BaseException, enum.Enum, int)
"""Named tuples are tuples, typed dicts are dicts. A compiled subclass of any other class written in C crashes when it is made."""


def test_no_class_is_a_subclass_of_what_is_written_in_c() -> None:
    for path in MODULES:
        with case(path=path):
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


def test_no_interpreted_class_is_a_subclass_of_a_compiled_one() -> None:
    compiled = {path.removesuffix(".py").replace("/", ".") for path in MODULES}
    heirs = set()
    for found in pkgutil.walk_packages(twisted_kafka.__path__, "twisted_kafka."):
        if found.name in compiled:
            continue
        for _, class_ in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if class_.__module__ == found.name and any(base.__module__ in compiled for base in class_.__bases__):
                heirs.add((found.name, class_.__name__))
    assert not heirs, "a compiled class has compiled heirs only: the first instance of these raises TypeError"


def test_every_module_is_listed_once() -> None:
    assert len(MODULES) == len(set(MODULES))
