"""What the documents say of the code is so."""

import importlib
import re
import threading
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import twisted_kafka
from tests.broker.api_table import api_table, written_table
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.command_line import settings_in
from twisted_kafka.config.keys import BROKER_KEYS, EXTENSION_KEYS
from twisted_kafka.config.properties import load_properties

ROOT = Path(__file__).parents[2]
TABLES = "architecture-tables.md"
CLIENTS_KEYS = {"group.protocol"}
FEATURES = {"group.version", "share.version", "streams.version"}


def test_the_table_of_apis_lists_the_registered_ones() -> None:
    assert written_table() == api_table(), "to update it: python -m tests.broker.api_table"


def test_the_one_path_exists() -> None:
    steps = re.findall(r"^\| `(\w+)\.(\w+)` \| `([\w/]+)\.py` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert len(steps) > 10
    for class_name, method, module in steps:
        found = getattr(importlib.import_module(f"twisted_kafka.{module.replace('/', '.')}"), class_name)
        assert callable(getattr(found, method)), f"{class_name}.{method}"


def test_the_table_of_threads_has_all_of_a_running_broker(tmp_path: Path) -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Threads")[2].partition("\n- ")[0]
    patterns = [name for line in table.splitlines() if "|" in line for name in re.findall(r"`([\w*-]+)`", line.split("|")[1])]
    before = set(threading.enumerate())
    settings = {"access.log.dir": tmp_path, "listeners": "A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0"}
    settings |= {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT", "inter.broker.listener.name": "A"}
    with twisted_kafka.Broker({**settings, "control.plane.listener.name": "C"}):
        names = {thread.name for thread in set(threading.enumerate()) - before}
    assert [name for name in sorted(names) if not any(fnmatch(name.partition("ListenerName")[0], each) for each in patterns)] == []


def _section(title: str, document: str = "architecture.md") -> str:
    """Return the text of a document from ``title`` to the next heading or question."""
    text = (ROOT / "docs" / document).read_text().partition(title)[2]
    return re.split(r"^(?:#|\*\*)", text, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_table_of_floors_is_the_contract() -> None:
    rows = [line.split("|")[2] for line in _section("## Floors\n").splitlines() if line.startswith("|") and "`" in line]
    written = [set(re.findall(r"`(\w+)/?`", row)) for row in rows]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    assert written == [set(layer.split(" | ")) for layer in layers]


def _modules_with(pattern: str) -> set[str]:
    package = ROOT / "twisted_kafka"
    return {str(path.relative_to(package)) for path in package.rglob("*.py") if re.search(pattern, path.read_text())}


def _modules_named_in(section: str) -> set[str]:
    rows = "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    return set(re.findall(r"`([\w/]+\.py)`", rows))


@pytest.mark.medium
def test_the_modules_that_sync_are_listed() -> None:
    calls = r"\b(fsync|fdatasync|disk\.sync|disk\.sync_data|sync_file|sync_directory|sync_file_system|write_atomically)\("
    assert _modules_named_in(_section("## Syncs to disk", TABLES)) == _modules_with(calls)


@pytest.mark.medium
def test_the_modules_that_write_to_the_metadata_store_are_listed() -> None:
    writers = _modules_with(r"(store|fenced)\.(set|create|delete|multi|batch)\(")
    assert _modules_named_in(_section("## Writers of the metadata store", TABLES)) == writers


def test_modules_named_in_the_architecture_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    package = ROOT / "twisted_kafka"
    group = package / "group_coordinator"
    folders = [package / name for name in ("transaction_coordinator", "share_coordinator", "share")]
    below = [ROOT, package, *folders, group, *group.iterdir()]
    assert [name for name in named if not any((folder / name).exists() for folder in below)] == []


def test_documents_name_keys_that_exist_and_all_of_our_own() -> None:
    named: set[str] = set()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for key in re.findall(
            r"`((?:log|access|metrics|num|offsets|group|queued|advertised|reserved|process|zookeeper)\.[a-z.]+[a-z])",
            path.read_text(),
        ):
            named.add(key)
    modules = {
        ".".join(path.relative_to(ROOT / "twisted_kafka").with_suffix("").parts) for path in (ROOT / "twisted_kafka").rglob("*.py")
    }
    assert named - set(BROKER_KEYS) - modules - CLIENTS_KEYS - FEATURES == set()
    operations = (ROOT / "docs" / "operations-settings.md").read_text()
    missing = [key for key in sorted(EXTENSION_KEYS) if f"`{key}`" not in operations]
    assert missing == [], "describe them in the table of docs/operations-settings.md"


def test_the_sample_settings_load_without_a_warning() -> None:
    config = KafkaConfig.from_properties(load_properties(ROOT / "etc" / "server.properties"))
    assert config.warnings == ()


def test_the_settings_of_the_container_files_load_without_a_warning() -> None:
    image = re.findall(r"(KAFKA_\w+)=(\S+)", (ROOT / "Dockerfile").read_text().partition("\nENV ")[2])
    compose = re.findall(r"(KAFKA_\w+): (\S+)", (ROOT / "etc" / "docker" / "compose.yaml").read_text())
    assert len(image) == len(compose) == 3
    for variables in (dict(image), dict(image) | dict(compose)):
        config = KafkaConfig.from_properties(settings_in(variables))
        assert config.warnings == ()
        assert "localhost:9092" in str(config["advertised.listeners"])


def test_the_site_has_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2].partition("hooks:")[0]
    listed = re.findall(r"([\w/-]+\.md)$", nav, re.MULTILINE)
    hooks = (ROOT / ".ci" / "site.py").read_text()
    from_the_top = re.findall(r'"(\w+\.md)"', hooks)
    here = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in here if not re.match(r"adr/\d", name)} == set(listed) - set(from_the_top)
    assert all((ROOT / name).exists() for name in from_the_top if name.isupper() or name == "README.md")


def test_decisions_have_a_status_and_their_index_fits_a_screen() -> None:
    folder = ROOT / "docs" / "adr"
    decisions = sorted(folder.glob("0*.md"))
    index = (folder / "README.md").read_text()
    assert re.findall(r"^- \[\d{4}\]\(([^)]*)\): ", index, re.MULTILINE) == [path.name for path in decisions]
    numbers = [path.name[:4] for path in decisions]
    assert len(set(numbers)) == len(numbers)
    assert len(index.splitlines()) <= 45
    headers = [path.read_text().splitlines()[:4] for path in decisions]
    assert all(re.fullmatch(r"# \d{4}: .+", header[0]) for header in headers)
    assert [header[2] for header in headers if not re.fullmatch(r"Status: (proposed|accepted)", header[2])] == []
    assert [header[3] for header in headers if not re.fullmatch(r"Date: \d{4}-\d\d-\d\d", header[3])] == []


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings as repository hosts make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
            there = path.parent / target if target else path
            assert there.exists(), f"{path.name}: {target}"
            assert not anchor or anchor in _anchors(there), f"{path.name}: {target}#{anchor}"
