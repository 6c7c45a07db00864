"""Trees of nodes that move between metadata stores and files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.registration import prepare_store
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metadata.tree import Node, TreeError, decode_tree, encode_tree, read_tree, write_tree


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "source.sqlite", threaded=False)
    yield store
    store.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "target.sqlite", threaded=False)
    yield store
    store.close()


LASTING = {
    znodes.CLUSTER_ID: b'{"version":"1","id":"c"}',
    "/brokers/topics/orders": '{"topic":"\u00fc"}'.encode(),
    "/brokers/topics/orders/partitions/0/state": b"{}",
    "/config/users/alice": b"\xff\x00 not text",
    "/config/brokers/<default>": b"line\nline",
    znodes.CONTROLLER_EPOCH: b"7",
}


def fill(store: IMetadataStore) -> None:
    prepare_store(store)
    for path, data in LASTING.items():
        store.create(path, data, make_parents=True)
    for _ in range(3):
        store.set(znodes.BROKER_SEQUENCE, b"")
    store.create(znodes.CONTROLLER, b"somebody", ephemeral=True)
    store.create(znodes.CONFIG_CHANGE_PREFIX, b"{}", sequence=True)


def everything(store: IMetadataStore, path: str = "") -> dict[str, bytes]:
    found = {}
    for name in store.children(path or "/"):
        child = f"{path}/{name}"
        found[child] = store.get(child)[0]
        found |= everything(store, child)
    return found


def test_a_tree_goes_through_a_file_byte_for_byte(store: SqliteStore, target: SqliteStore) -> None:
    fill(store)
    lines = list(encode_tree(read_tree(store)))
    assert all(line.endswith("\n") and "\n" not in line[:-1] for line in lines)
    assert write_tree(target, decode_tree(lines)) == len(lines) - 1
    expected = everything(store)
    left_out = [path for path in expected if path == znodes.CONTROLLER or path.startswith(znodes.CONFIG_CHANGE_PREFIX)]
    assert len(left_out) == 2
    for path in left_out:
        del expected[path]
    assert everything(target) == expected
    assert target.set(znodes.BROKER_SEQUENCE, b"").version == store.set(znodes.BROKER_SEQUENCE, b"").version


def test_an_import_that_was_interrupted_can_be_done_again(store: SqliteStore, target: SqliteStore) -> None:
    fill(store)
    nodes = list(read_tree(store))
    with pytest.raises(TreeError, match="no /cluster/id"):
        write_tree(target, [node for node in nodes if node.path != znodes.CLUSTER_ID])
    prepare_store(target)
    target.create("/brokers/topics/orders", b"half")
    write_tree(target, nodes)
    assert target.get("/brokers/topics/orders")[0] == LASTING["/brokers/topics/orders"]
    with pytest.raises(TreeError, match="has a cluster already"):
        write_tree(target, nodes)


def test_nothing_is_read_while_a_broker_runs(store: SqliteStore) -> None:
    fill(store)
    store.create(znodes.broker_path(3), b"{}", ephemeral=True)
    with pytest.raises(TreeError, match="broker 3 is running"):
        list(read_tree(store))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (['{"path": "/a", "data": ""}'], "not one that twisted-kafka metadata export wrote"),
        (["nonsense"], "line 1 of the file is no node"),
        (['{"twisted_kafka": "metadata", "version": 2}'], "or is of a later version"),
        (['{"twisted_kafka": "metadata", "version": 1}', '{"path": "/a"}'], "line 2 of the file is no node"),
        (['{"twisted_kafka": "metadata", "version": 1}', '{"path": "/a", "data": 1}'], "line 2 of the file is no node"),
    ],
)
def test_a_file_that_is_not_one_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(TreeError, match=why):
        list(decode_tree(lines))


def test_a_node_without_data_or_with_a_version() -> None:
    nodes = [Node("/a", b""), Node("/b", b"x", 7)]
    assert list(decode_tree(encode_tree(nodes))) == nodes
