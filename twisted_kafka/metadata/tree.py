"""A cluster's metadata as a list of nodes: read from one metadata store, written to another, or to a file and back.

What lasts is copied byte for byte. Left out are ephemeral nodes, which belong to brokers that run, and notifications of changes: a
broker that starts reads everything, and their numbers would be out of step with a new store's counters.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import Create, IMetadataStore, Set, StoreError, children_of

NOTIFICATIONS: Final = (
    znodes.CONFIG_CHANGES,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/delegation_token/token_changes",
)
"""Nodes whose children say that something has changed."""
_ZOOKEEPERS_OWN: Final = "/zookeeper"
_NODES_AT_ONCE: Final = 1000
_HEADER: Final = {"twisted_kafka": "metadata", "version": 1}


class TreeError(ValueError):
    """The tree cannot be copied; the text is one line."""


class Node(NamedTuple):
    """A node that lasts."""

    path: str
    data: bytes
    version: int = 0
    """How often its data were replaced: ``/brokers/seqid`` gives out broker ids by it."""


def read_tree(store: IMetadataStore) -> Iterator[Node]:
    """Yield the nodes, parents first. Raises TreeError if brokers are registered, whose changes would tear the copy."""
    brokers = children_of(store, znodes.BROKER_IDS)
    if brokers:
        raise TreeError(f"broker {', '.join(brokers)} is running: stop it first")
    level = [f"/{name}" for name in store.children("/")]
    while level:
        below = []
        for start in range(0, len(level), _NODES_AT_ONCE):
            paths = [path for path in level[start : start + _NODES_AT_ONCE] if path != _ZOOKEEPERS_OWN]
            for path, found in zip(paths, store.get_many(paths), strict=True):
                if found is not None and not found[1].ephemeral_owner:
                    yield Node(path, found[0], found[1].version)
                    if path not in NOTIFICATIONS:
                        below += [f"{path}/{name}" for name in children_of(store, path)]
        level = below


def write_tree(store: IMetadataStore, nodes: Iterable[Node]) -> int:
    """Write nodes, parents first, into a store that has no ``/cluster/id``; return their number. Raises TreeError, StoreError.

    Replaces nodes that exist. Writes ``/cluster/id`` last, so an interrupted import can be repeated.
    """
    if store.exists(znodes.CLUSTER_ID) is not None:
        raise TreeError("the metadata store has a cluster already")
    waiting = sorted(nodes, key=lambda node: (node.path == znodes.CLUSTER_ID, node.path))
    if not waiting or waiting[-1].path != znodes.CLUSTER_ID:
        raise TreeError("there is no /cluster/id among the nodes: they are not those of a whole cluster")
    for start in range(0, len(waiting), _NODES_AT_ONCE):
        _write(store, waiting[start : start + _NODES_AT_ONCE])
    for node in waiting:
        if node.path == znodes.BROKER_SEQUENCE:
            _raise_version(store, node)
    return len(waiting)


def _write(store: IMetadataStore, nodes: list[Node]) -> None:
    found = store.get_many([node.path for node in nodes])
    changes = [
        [Create(node.path, node.data) if known is None else Set(node.path, node.data)]
        for node, known in zip(nodes, found, strict=True)
        if known is None or known[0] != node.data
    ]
    for result in store.batch(changes):
        if isinstance(result, StoreError):
            raise result


def _raise_version(store: IMetadataStore, node: Node) -> None:
    stat = store.exists(node.path)
    while stat is not None and stat.version < node.version:
        stat = store.set(node.path, node.data)


def encode_tree(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the lines of a file: a header, then an object for each node, with its data as text, or else in base64."""
    yield json.dumps(_HEADER) + "\n"
    for node in nodes:
        line: dict[str, object] = {"path": node.path}
        try:
            line["data"] = node.data.decode()
        except UnicodeDecodeError:
            line["base64"] = base64.b64encode(node.data).decode()
        if node.version:
            line["version"] = node.version
        yield json.dumps(line, ensure_ascii=False) + "\n"


def decode_tree(lines: Iterable[str]) -> Iterator[Node]:
    """Yield the nodes of a file's lines; raises TreeError."""
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            if number == 1:
                if value != _HEADER:
                    raise TreeError("the file is not one that twisted-kafka metadata export wrote, or is of a later version")
                continue
            data = base64.b64decode(value["base64"]) if "base64" in value else value["data"].encode()
            yield Node(str(value["path"]), data, int(value.get("version", 0)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, TreeError):
                raise
            raise TreeError(f"line {number} of the file is no node: {error!r}") from None
