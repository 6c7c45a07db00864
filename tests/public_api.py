"""What the public modules export, with signatures. As a program, this stores it: python -m tests.public_api."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from zope.interface.interface import InterfaceClass

MODULES = (
    "twisted_kafka",
    "twisted_kafka.plugins",
    "twisted_kafka.service",
    "twisted_kafka.tap",
    "twisted_kafka.testing",
    "twisted_kafka.tools.compare",
)
STORED = Path(__file__).parent / "data" / "public_api.txt"
PAGES = Path(__file__).parents[1] / "docs" / "api"

ONLY = {
    "KafkaConfig": {"from_properties", "embedded"},
    "Options": set[str](),
    "RequestContext": {
        "api_key", "api_version", "client_id", "connection_id", "listener_name", "security_protocol", "principal", "client_address",
    },
    "MetadataSnapshot": {"brokers", "topics", "topic_ids", "topic_names", "controller_id", "nodes"},
}  # fmt: skip
"""Classes of which only these members are public: the others are for the broker itself."""


def exported(name: str) -> list[str]:
    module = import_module(name)
    return sorted(each for each in module.__all__ if each != "__version__")


def public_api() -> str:
    """Return a line for each export and for each public member of an exported class."""
    lines: list[str] = []
    for name in MODULES:
        module = import_module(name)
        for each in exported(name):
            lines.append(f"{name}.{each}{_signature_of(module, each)}")
            found = getattr(module, each)
            if isinstance(found, (type, InterfaceClass)):
                lines += [f"{name}.{each}.{member}" for member in sorted(_members(found))]
    return "\n".join(lines) + "\n"


def stored_api() -> str:
    return STORED.read_text()


def shown() -> dict[str, set[str]]:
    """Return the names that the API pages show, by module."""
    names = [name for page in PAGES.iterdir() for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    return {module: {name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == module} for module in MODULES}


def _signature_of(module: ModuleType, name: str) -> str:
    found = getattr(module, name)
    if inspect.isfunction(found):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
        assert isinstance(tree, ast.FunctionDef)
        return _signature(tree)
    return ""


def _members(found: Any) -> Iterator[str]:
    only = ONLY.get(found.__name__)
    seen: set[str] = set()
    for cls in _classes(found):
        module = ast.parse(inspect.getsource(import_module(cls.__module__)))
        tree = next(each for each in module.body if isinstance(each, ast.ClassDef) and each.name == cls.__name__)
        for name, text in _declared(tree):
            if name not in seen and (only is None or name in only):
                yield text
            seen.add(name)


def _classes(found: Any) -> list[Any]:
    """Return the classes of this package whose members a class has. An interface of zope.interface is not a type."""
    found = found.__iro__ if isinstance(found, InterfaceClass) else found.__mro__
    return [cls for cls in found if cls.__module__.startswith("twisted_kafka")]


def _declared(tree: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if node.name == "__init__":
                yield node.name, f"__init__{_signature(node)}"
                yield from _assigned(node)
            elif not node.name.startswith("_"):
                yield node.name, f"{node.name}{_signature(node)}"
        elif isinstance(node, ast.AnnAssign):
            yield from _named(node.target, f": {ast.unparse(node.annotation)}")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _named(target, "")


def _assigned(constructor: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Return the public attributes that a constructor sets."""
    for node in ast.walk(constructor):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and not target.attr.startswith("_"):
                yield target.attr, target.attr


def _named(target: ast.expr, rest: str) -> Iterator[tuple[str, str]]:
    if isinstance(target, ast.Name) and not target.id.startswith("_"):
        yield target.id, f"{target.id}{rest}"


def _signature(node: ast.FunctionDef) -> str:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    if "property" in decorators:
        return f": {'' if node.returns is None else ast.unparse(node.returns)}"
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"({ast.unparse(node.args)}){returns}"


if __name__ == "__main__":
    STORED.write_text(public_api())
