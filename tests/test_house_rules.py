"""Rules of the house that no tool checks; the layers are import-linter's (pyproject.toml)."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import case
from tests.support.syntax import Nodes

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "twisted_kafka"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 8
"""With ``self``."""
MORE_PARAMETERS = {"broker/broker.py: __init__", "protocol/compiler/schema.py: field"}
"""Options of a broker, which users name one by one, and of a field's declaration; by keywords alone but for the first."""
CLOCK = PACKAGE / "timing" / "clock.py"
THREADS = PACKAGE / "system" / "threads.py"
WORLDS_AIOKAFKA = PACKAGE / "world" / "machine" / "aiokafka_order.py"
WORLDS_DATES = PACKAGE / "world" / "machine" / "dates.py"
DISK = PACKAGE / "system" / "files" / "disk.py"
SYNCS = {"fsync", "fdatasync", "posix_fallocate", "posix_fadvise"}
BATCH_LAYOUT = PACKAGE / "protocol" / "records" / "layout.py"
PLACES_IN_A_BATCH = {16, 17, 21, 22, 27, 35, 43, 51, 53}
MACHINE = PACKAGE / "system" / "machine.py"
OF_THE_MACHINE = {
    "threading": {"Thread", "Timer", "Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"},
    "_thread": {"allocate_lock", "start_new_thread"},
    "queue": {"Queue", "SimpleQueue", "LifoQueue", "PriorityQueue"},
    "concurrent.futures": {"ThreadPoolExecutor"},
    "random": {"random", "randrange", "randint", "choice", "choices", "sample", "shuffle", "uniform", "SystemRandom"},
    "secrets": {"token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "getrandom"},
    "socket": {"socket", "create_connection", "getaddrinfo", "gethostname", "getfqdn", "gethostbyname", "socketpair"},
}
"""What ``system.machine`` has: a simulated machine replaces it there."""
OUTSIDE_OF_WORLDS = {
    "metadata/zookeeper/": "kazoo makes threads and sockets of its own; a world simulates ZooKeeper",
    "client/connections/socket_connection.py": "the blocking client of commands and of tests",
    "console/": "the web console, and its connections to any Kafka",
    "recording/replay.py": "a program that sends a recording to any broker",
    "tools/": "programs of their own",
    "world/": "the simulated machine",
}
THREAD_MODULES = {"threading", "_thread", "concurrent.futures", "concurrent.futures.thread"}
THREAD_MAKERS = {"Thread", "Timer", "ThreadPoolExecutor", "start_new_thread"}
RAW_TRANSFERS = {
    "copy_file_range",
    "pread",
    "preadv",
    "pwrite",
    "pwritev",
    "read",
    "readv",
    "sendfile",
    "splice",
    "write",
    "writev",
}
"""Functions of ``os`` that may transfer less than they are asked for."""
MAY_TRANSFER_A_PART = {
    "access_log/rotation.py": "writes what is left, or cuts it off",
    "network/connection/transport.py": "a socket takes what it has room for; the rest is sent later",
    "network/loop/reactors.py": "a pipe that wakes a thread",
    "network/loop/wake_up_timer.py": "a timer's counter",
    "system/buffers.py": "file_io completes it",
    "system/files/file_io.py": "completes it",
    "system/foreign.py": "file_io completes it",
    "tools/test_server.py": "waits for the end of standard input",
    "tools/top/command.py": "a key of a terminal is a byte",
}
READS_NUMBERS = {
    "metrics/prometheus.py": "a digit at the beginning of a label",
    "system/numbers.py": "says whether a text is a number",
    "world/machine/network.py": "a name of digits and dots is an address",
}
COORDINATORS = ("coordinator", "group_coordinator", "transaction_coordinator")
MOST_ANY = 17
"""How often ``Any`` may occur in the coordinators. It may only fall."""


def test_the_coordinators_are_typed() -> None:
    texts = [path.read_text() for name in COORDINATORS for path in (PACKAGE / name).rglob("*.py")]
    assert sum(len(re.findall(r"\bAny\b", text)) for text in texts) <= MOST_ANY


SAYS_NOTHING = (
    re.compile(r"(One of the|The|An) ``\w+``( and ``\w+``)? of (a|an|the) [A-Z]\w+"),
    re.compile(r"See (``)?[\w.]+(``)?\."),
    re.compile(r"\(?``I?[A-Z]\w*\.\w+``\.?\)?\.?$"),
    re.compile(r"Do nothing\b"),
)
"""Docstrings that add nothing to the names: without one, a reader loses nothing."""
TIME_OF_DAY = {"time", "monotonic", "time_ns", "monotonic_ns", "sleep"}

MOST_MODULES = 15
"""Modules in a folder, without its ``__init__``: beyond that it gets subfolders by purpose."""

MOST_CIRCLES = 10
"""Imports for annotations that close a circle, which pyproject.toml lists. It may only fall."""

KINDS = (
    *(ast.AnnAssign, ast.arg, ast.Assign, ast.AsyncFunctionDef, ast.Attribute, ast.Call, ast.ClassDef, ast.FunctionDef),
    *(ast.Import, ast.ImportFrom, ast.keyword, ast.DictComp, ast.GeneratorExp, ast.ListComp, ast.SetComp),
)
"""The nodes that rules are about: a quarter of all."""


def nodes_of(path: Path) -> Nodes:
    return Nodes(ast.parse(path.read_text()), *KINDS)


def _calls_of_time(nodes: Nodes) -> Iterator[str]:
    for node in nodes.of(ast.Attribute):
        if node.attr in TIME_OF_DAY and isinstance(node.value, ast.Name) and node.value.id == "time":
            yield f"line {node.lineno}: time.{node.attr}"
    for each in nodes.of(ast.ImportFrom):
        if each.module == "time":
            yield f"line {each.lineno}: from time import ..."


def _imports_of_reactor(nodes: Nodes) -> Iterator[str]:
    for node in nodes.of(ast.ImportFrom):
        if node.module == "twisted.internet" and any(name.name == "reactor" for name in node.names):
            yield f"line {node.lineno}"
    for each in nodes.of(ast.Import):
        if any(name.name == "twisted.internet.reactor" for name in each.names):
            yield f"line {each.lineno}"


def _threads_made(nodes: Nodes) -> Iterator[str]:
    """What makes threads of the standard library: a call, or a subclass."""
    imports = [node for node in nodes.of(ast.ImportFrom) if node.module in THREAD_MODULES]
    imported = {alias.asname or alias.name for node in imports for alias in node.names if alias.name in THREAD_MAKERS}
    made = {f"{module}.{name}" for module in THREAD_MODULES for name in THREAD_MAKERS} | imported
    called = [node.func for node in nodes.of(ast.Call)] + [base for node in nodes.of(ast.ClassDef) for base in node.bases]
    yield from (f"line {each.lineno}: {_dotted(each)}" for each in called if _dotted(each) in made)


def _dotted(node: ast.expr) -> str:
    """Return a name, or a name of a module, as it is written; empty for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name) if before := _dotted(inner):
            return f"{before}.{name}"
    return ""


def _ways_around_the_machine(nodes: Nodes) -> Iterator[str]:
    """Find what the standard library is asked for, and names of ``machine`` that were bound before a world could replace them."""
    used = [
        (node, module) for node in nodes.of(ast.Attribute) if node.attr in OF_THE_MACHINE.get(module := _dotted(node.value), ())
    ]
    if used:
        annotated = {id(part) for node in nodes.all() for part in _annotation(node)}
        for node, module in used:
            if id(node) not in annotated and module != "socket":
                yield f"line {node.lineno}: {module}.{node.attr}"
    for call in nodes.of(ast.Call):
        match call.func:
            case ast.Attribute(value=ast.Name(id="socket"), attr=name) if name in OF_THE_MACHINE["socket"]:
                yield f"line {call.lineno}: socket.{name}()"
    for each in nodes.of(ast.ImportFrom):
        if {alias.name for alias in each.names} & OF_THE_MACHINE.get(each.module or "", set()):
            yield f"line {each.lineno}: from {each.module} import ..."
        if each.module == "twisted_kafka.system.machine":
            yield f"line {each.lineno}: import the module, whose names a world replaces"


def _annotation(node: ast.AST) -> Iterator[ast.AST]:
    annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
    if annotation is not None:
        yield from ast.walk(annotation)


def _raw_transfers(nodes: Nodes) -> Iterator[str]:
    for node in nodes.of(ast.Attribute):
        if node.attr == "readinto" or (node.attr in RAW_TRANSFERS and _dotted(node.value) == "os"):
            yield f"line {node.lineno}: {node.attr}"
    for each in nodes.of(ast.ImportFrom):
        if each.module == "os" and {alias.name for alias in each.names} & RAW_TRANSFERS:
            yield f"line {each.lineno}: from os import ..."
    for word in nodes.of(ast.keyword):
        match word:
            case ast.keyword(arg="buffering", value=ast.Constant(value=0)):
                yield f"line {word.value.lineno}: buffering=0"
    for call in nodes.of(ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="FileIO"), args=[_, ast.Constant(value=str(mode))]) if set(mode) & set("wax+"):
                yield f"line {call.lineno}: FileIO for writing"


def _descriptors_of_no_file(nodes: Nodes) -> Iterator[str]:
    """Find where a segment's file may be closed before its descriptor is used."""
    for node in nodes.of(ast.Call):
        match node.func:
            case ast.Attribute(attr="fileno", value=ast.Attribute(attr="file", value=ast.Name(id="self" | "segment"))):
                yield f"line {node.lineno}"


def _numbers_by_digits(nodes: Nodes) -> Iterator[str]:
    for node in nodes.of(ast.Attribute):
        if node.attr in ("isdigit", "isdecimal", "isnumeric"):
            yield f"line {node.lineno}: {node.attr}"


def _syncs(nodes: Nodes) -> Iterator[str]:
    for node in nodes.of(ast.Attribute):
        if node.attr in SYNCS and _dotted(node.value) == "os":
            yield f"line {node.lineno}: os.{node.attr}"


def _places_in_a_batch(nodes: Nodes) -> Iterator[str]:
    """Find constants that repeat where a field of a batch's header is."""
    for node in (*nodes.of(ast.Assign), *nodes.of(ast.AnnAssign)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(place)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int(place)))
            ) if name.endswith("_AT") and place in PLACES_IN_A_BATCH:
                yield f"line {node.lineno}: {name}"


def _loggers_of_classes(nodes: Nodes) -> Iterator[str]:
    """Find loggers whose events hold an object, as long as Twisted keeps the events of a program that has not begun to log."""
    for node in nodes.of(ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.Assign | ast.AnnAssign) and _makes_a_logger(each.value):
                yield f"line {each.lineno}: {ast.unparse(each)}"


def _makes_a_logger(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and _dotted(value.func).endswith("Logger")


COLLECTIONS = {"dict", "frozenset", "list", "set", "sorted", "tuple"}


def _collections_made_again(nodes: Nodes) -> Iterator[str]:
    """Find collections that a condition makes anew for each element, though they do not depend on it: the cost is a square."""
    nested: list[ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp] = [
        *nodes.of(ast.ListComp),
        *nodes.of(ast.GeneratorExp),
    ]
    for node in [*nested, *nodes.of(ast.DictComp), *nodes.of(ast.SetComp)]:
        targets = {each.id for one in node.generators for each in ast.walk(one.target) if isinstance(each, ast.Name)}
        for condition in (each for one in node.generators for each in one.ifs):
            for each in ast.walk(condition):
                match each:
                    case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Call(func=ast.Name(id=name)) as made]):
                        used = {inner.id for inner in ast.walk(made) if isinstance(inner, ast.Name)}
                        if name in COLLECTIONS and not used & targets:
                            yield f"line {each.lineno}: {ast.unparse(each)}"


def _functions(nodes: Nodes) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [*nodes.of(ast.FunctionDef), *nodes.of(ast.AsyncFunctionDef)]


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return len((*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))


def _docstrings_that_say_nothing(nodes: Nodes) -> Iterator[str]:
    named: list[ast.ClassDef | ast.FunctionDef] = [*nodes.of(ast.ClassDef), *nodes.of(ast.FunctionDef)]
    for node in named:
        text = ast.get_docstring(node, clean=False) or ""
        if any(each.match(text) for each in SAYS_NOTHING):
            yield f"{node.name}: {text}"


@pytest.mark.medium
def test_a_module_keeps_the_rules() -> None:
    for path in MODULES:
        with case(path=path):
            nodes = nodes_of(path)
            assert list(_imports_of_reactor(nodes)) == [], "reactors are passed in"
            if path not in (CLOCK, WORLDS_AIOKAFKA, WORLDS_DATES):
                assert list(_calls_of_time(nodes)) == [], "an IClock is passed in"
            if path != THREADS:
                assert list(_threads_made(nodes)) == [], "system.threads makes threads, whose errors are logged and counted"
            if path != MACHINE and not str(path.relative_to(PACKAGE)).startswith(tuple(OUTSIDE_OF_WORLDS)):
                assert list(_ways_around_the_machine(nodes)) == [], "system.machine has it, for a simulated machine to replace"
            if str(path.relative_to(PACKAGE)) not in MAY_TRANSFER_A_PART:
                assert list(_raw_transfers(nodes)) == [], "file_io completes a read or write, or raises"
            if str(path.relative_to(PACKAGE)) not in READS_NUMBERS:
                assert list(_numbers_by_digits(nodes)) == [], "system.numbers reads what int() refuses, or takes for a number"
            if path != BATCH_LAYOUT:
                assert list(_places_in_a_batch(nodes)) == [], "protocol.records.layout has them"
            if path != DISK:
                assert list(_syncs(nodes)) == [], "system.disk knows what each platform has"
            assert list(_loggers_of_classes(nodes)) == [], "the module has the logger, in _log"
            assert list(_descriptors_of_no_file(nodes)) == [], "a variable keeps the file open while its descriptor is used"
            assert list(_collections_made_again(nodes)) == [], "a variable has it for all elements"
            long = [each.name for each in _functions(nodes) if _length(each) > LONGEST_FUNCTION]
            assert long == [], "a function of its own for a part of this"
            wide = [each for each in _functions(nodes) if _parameters(each) > MOST_PARAMETERS]
            names = {f"{path.relative_to(PACKAGE)}: {each.name}" for each in wide}
            assert names <= MORE_PARAMETERS, "an object for what belongs together"
            assert all(len(each.args.args) <= 2 for each in wide), "by keywords alone"
            assert list(_docstrings_that_say_nothing(nodes)) == []


def test_no_folder_is_crowded() -> None:
    paths = [path for top in (PACKAGE, ROOT / "spark" / "twisted_kafka_spark") for path in top.rglob("*.py")]
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in paths if path.name != "__init__.py")
    crowded = {folder: count for folder, count in counts.items() if count > MOST_MODULES}
    assert crowded == {}, "subfolders by purpose"


def test_no_more_imports_for_annotations_close_a_circle() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (ignored,) = (each["ignore_imports"] for each in contracts if each["type"] == "acyclic_siblings")
    assert len(ignored) <= MOST_CIRCLES, "a callable, or one module for both"


def test_only_those_that_need_it_may_transfer_a_part() -> None:
    for name in MAY_TRANSFER_A_PART:
        with case(name=name):
            assert list(_raw_transfers(nodes_of(PACKAGE / name)))


def test_a_way_around_the_machine_is_found() -> None:
    text = """
import threading, socket
lock = threading.Lock()
from uuid import uuid4
def f(given: socket.socket, other: "threading.Lock") -> threading.Thread: return socket.socket()
from twisted_kafka.system.machine import Lock
"""
    found = list(_ways_around_the_machine(Nodes(ast.parse(text), *KINDS)))
    assert sorted(each.partition(":")[0] for each in found) == ["line 3", "line 4", "line 5", "line 6"]


def test_a_collection_that_is_made_for_each_element_is_found() -> None:
    text = """
bad = [each for each in held if each not in set(led)]
good = [each for each in held if each in set(each.others)]
also = [each for each in set(held) if each in led]
"""
    found = list(_collections_made_again(Nodes(ast.parse(text), *KINDS)))
    assert sorted(each.partition(":")[0] for each in found) == ["line 2"]


IMPORT_OF_TESTS = re.compile(r"^ *(?:from (tests[\w.]*) import (\([^)]*\)|.*)|import (tests[\w.]*))", re.MULTILINE)


def _imports_of_tests(text: str) -> Iterator[str]:
    """Find the modules of ``tests`` that are imported; ``from tests.a import b`` may import ``tests.a.b``."""
    for package, names, module in IMPORT_OF_TESTS.findall(text):
        yield from [module] if module else (f"{package}.{name}" for name in re.findall(r"\w+", names))


@pytest.mark.medium
def test_no_module_imports_a_test_module() -> None:
    for path in (path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")):
        with case(path=path):
            imports = list(_imports_of_tests(path.read_text()))
            assert not [each for each in imports if ".test_" in each], "a module beside it has what both need"
            if path.is_relative_to(ROOT / "tests" / "support"):
                assert [each for each in imports if not each.startswith("tests.support.")] == [], "support/ is for several folders"


def test_an_import_of_a_test_module_is_found() -> None:
    text = "from tests.a import (\n    b,\n    test_c,\n)\nfrom tests.test_d import e\nimport tests.test_f"
    assert list(_imports_of_tests(text)) == ["tests.a.b", "tests.a.test_c", "tests.test_d.e", "tests.test_f"]


@pytest.mark.medium
def test_examples_have_no_deadline_and_a_share_of_the_budget() -> None:
    for path in (path for path in (ROOT / "tests").rglob("test_*.py") if "hypothesis" in path.read_text()):
        for node in nodes_of(path).of(ast.keyword):
            match node:
                case ast.keyword(arg="deadline"):
                    raise AssertionError(f"{path.name}: the profile in conftest.py has none")
                case ast.keyword(arg="max_examples", value=ast.Constant(value=int(count))) if count > 1:
                    raise AssertionError(f"{path.name}: a share_of({count})")
