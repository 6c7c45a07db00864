"""Copies a cluster's metadata between the embedded store and ZooKeeper, node by node, for both have the same tree.

What goes along is what lasts: topics with their ids, partitions and their states, configs, the cluster's id, the epochs of
controllers and the block of producer ids that was given out. Whatever belongs to brokers that run stays behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from twisted_kafka.metadata.embedded import SqliteStore

PASSING = (
    "/brokers/ids",
    "/controller",
    "/config/changes",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/zookeeper",
)
"""Nodes of brokers that run, and notices of what happened."""

Tree = dict[str, bytes]


def is_passing(path: str) -> bool:
    return any(path == name or path.startswith(f"{name}/") for name in PASSING)


def tree_of_store(path: Path) -> Tree:
    store = SqliteStore(path)
    found: Tree = {}

    def walk(node: str) -> None:
        for name in store.children(node):
            child = f"{node.rstrip('/')}/{name}"
            value = store.get(child)
            if value is not None and not value[1].ephemeral_owner and not is_passing(child):
                found[child] = value[0]
                walk(child)

    walk("/")
    store.close()
    return found


def put_into_store(path: Path, tree: Tree) -> None:
    store = SqliteStore(path)
    for node, data in sorted(tree.items()):
        if store.exists(node) is None:
            store.create(node, data, make_parents=True)
        else:
            store.set(node, data)
    store.close()


@contextmanager
def zookeeper(address: str) -> Iterator[KazooClient]:
    client = KazooClient(address, timeout=20)
    client.start(30)
    yield client
    client.stop()
    client.close()


def put_into_zookeeper(address: str, tree: Tree) -> None:
    with zookeeper(address) as client:
        for node, data in sorted(tree.items()):
            client.ensure_path(node)
            client.set(node, data)


def tree_of_zookeeper(address: str) -> Tree:
    found: Tree = {}
    with zookeeper(address) as client:

        def walk(node: str) -> None:
            for name in client.get_children(node):
                child = f"{node.rstrip('/')}/{name}"
                if is_passing(child):
                    continue
                data, stat = client.get(child)
                if not stat.ephemeralOwner:
                    found[child] = data or b""
                    walk(child)

        walk("/")
    return found
