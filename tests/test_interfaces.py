"""An interface is for a lower floor that calls up, for two implementations, or for users (docs/architecture.md, Floors)."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.syntax import Nodes
from twisted_kafka import plugins

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "twisted_kafka"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = next(each["layers"] for each in CONTRACTS if each["type"] == "layers")
FLOORS = {room: floor for floor, layer in enumerate(reversed(LAYERS)) for room in layer.split(" | ")}
MOST_INTERFACES = 64
"""It may only fall."""
KEPT = {
    "group_coordinator: SteppingAssignor": "users' assignors may have it",
    "testing: INode": "a broker under test, below the module of its class",
}


class Kind(NamedTuple):
    """A class of the package."""

    room: str
    name: str
    bases: set[str]
    names: set[str]
    """Its methods and attributes, without those of its bases."""

    @property
    def is_interface(self) -> bool:
        # A protocol of Twisted's, which has the same name, is a class with a constructor or with connectionMade.
        return bool(self.bases & {"Protocol", "Interface"}) and not self.names & {"__init__", "connectionMade"}


def _names(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
    for inner in Nodes(node, ast.Attribute).of(ast.Attribute):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def _classes(node: ast.AST) -> Iterator[ast.ClassDef]:
    """Find classes in the bodies of modules, classes, functions and conditions, without a look at expressions."""
    for each in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
        if isinstance(each, ast.ClassDef):
            yield each
        yield from _classes(each)


def kinds_in(text: str, room: str) -> list[Kind]:
    nodes = list(_classes(ast.parse(text)))
    bases = ({ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases} for node in nodes)
    return [Kind(room, node.name, its, set(_names(node))) for node, its in zip(nodes, bases, strict=True)]


@cache
def kinds_of_package() -> list[Kind]:
    return [
        kind
        for path in sorted(PACKAGE.rglob("*.py"))
        for kind in kinds_in(path.read_text(), path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    ]


def useless(kinds: list[Kind]) -> list[str]:
    """Return the protocols whose only implementation is in the same package or on a lower floor: name the class."""
    by_name: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_name.setdefault(kind.name, []).append(kind)

    def with_bases(kind: Kind, seen: frozenset[str] = frozenset()) -> set[str]:
        names = set(kind.names)
        for base in kind.bases - seen - {kind.name}:
            for each in by_name.get(base, []):
                names |= with_bases(each, seen | {kind.name})
        return names

    concrete = [(kind, with_bases(kind)) for kind in kinds if not kind.is_interface]
    found = []
    for kind in kinds:
        if kind.is_interface and "Protocol" in kind.bases:
            wanted = with_bases(kind)
            rooms = [other.room for other, names in concrete if wanted <= names]
            if len(rooms) == 1 and (rooms[0] == kind.room or FLOORS.get(rooms[0], 0) < FLOORS.get(kind.room, 0)):
                found.append(f"{kind.room}: {kind.name}")
    return found


@pytest.mark.medium
def test_there_are_few_interfaces() -> None:
    assert sum(kind.is_interface for kind in kinds_of_package()) <= MOST_INTERFACES


@pytest.mark.medium
def test_a_neighbour_and_a_class_of_a_lower_floor_are_named() -> None:
    assert set(useless(kinds_of_package())) == KEPT.keys()


@pytest.mark.medium
def test_users_supply_what_is_no_protocol() -> None:
    assert {kind.name for kind in kinds_of_package() if "Interface" in kind.bases} <= set(plugins.__all__)


def test_a_useless_protocol_is_found() -> None:
    protocol = "class Logs(Protocol):\n    def all_logs(self): ...\n"
    manager = "class Manager(Base): ...\nclass Base:\n    def all_logs(self): ...\n"
    assert useless(kinds_in(protocol, "log") + kinds_in("class Manager:\n    def all_logs(self): ...", "log")) == ["log: Logs"]
    assert useless(kinds_in(protocol, "replication") + kinds_in("class Manager:\n    def all_logs(self): ...", "log")) != []
    assert useless(kinds_in(protocol, "log") + kinds_in("class Manager:\n    def all_logs(self): ...", "replication")) == []
    assert useless(kinds_in(protocol, "log") + kinds_in(manager, "log")) == [], "there are two"
