"""Reads the cluster's state from the metadata store into the controller's context, and watches the nodes that it reads."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping

from twisted.logger import Logger

from twisted_kafka.controller.context.context import ControllerContext, LiveBroker, ReplicaAssignment
from twisted_kafka.controller.context.fenced_store import FencedStore
from twisted_kafka.controller.machines.partition_machine import decoded_leadership
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import EventKind, IWatch, Set, Stat, StoreError, WatchEvent
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import BrokerNode, TopicNode
from twisted_kafka.metadata.znodes_admin import LogDirEventNode, PartitionsNode
from twisted_kafka.protocol.compiler.types import random_uuid
from twisted_kafka.protocol.topic_partition import TopicPartition, is_legal_topic
from twisted_kafka.system.numbers import INT32_MAX, decimal

_log = Logger()


class ContextLoader:
    """Fills the context. A node that cannot be decoded is logged and ignored."""

    def __init__(self, context: ControllerContext, store: FencedStore) -> None:
        self._context = context
        self._store = store

    def existing(self, path: str, names: Iterable[str]) -> set[str]:
        """Return the ``names`` that are children of the node."""
        wanted = list(names)
        found = self._store.get_many([f"{path}/{name}" for name in wanted])
        return {name for name, node in zip(wanted, found, strict=True) if node is not None}

    def take_isr_changes(self) -> list[TopicPartition]:
        """Return the partitions whose leaders changed the in-sync replicas, each once, and delete the notifications."""
        partitions: dict[TopicPartition, None] = {}
        for data in self._take(znodes.ISR_CHANGES):
            with contextlib.suppress(BadNodeError):
                partitions.update(dict.fromkeys(PartitionsNode.decode(data).partitions))
        return list(partitions)

    def take_log_dir_events(self) -> set[int]:
        """Return the brokers that notified of failed log directories, and delete the notifications."""
        brokers = set()
        for data in self._take(znodes.LOG_DIR_EVENTS):
            with contextlib.suppress(BadNodeError):
                brokers.add(LogDirEventNode.decode(data).broker_id)
        return brokers

    def _take(self, path: str) -> list[bytes]:
        """Return the data of a node's children, in order, and delete them."""
        paths = [f"{path}/{name}" for name in self._store.children(path)]
        taken = [found[0] for found in self._store.get_many(paths) if found is not None]
        self._store.delete_all(paths)
        return taken

    def broker_ids(self) -> list[int]:
        """Return the ids of the registered brokers."""
        ids = (decimal(name, INT32_MAX) for name in self._store.children(znodes.BROKER_IDS))
        return [broker_id for broker_id in ids if broker_id is not None]

    def live_brokers(self, nodes: Mapping[int, tuple[bytes, Stat] | None]) -> dict[int, LiveBroker]:
        """Return the brokers that have a node, by id."""
        brokers = {}
        for broker, found in nodes.items():
            if found is not None:
                try:
                    brokers[broker] = LiveBroker(BrokerNode.decode(found[0]), found[1].czxid)
                except BadNodeError as error:
                    _log.error("Broker {broker} is ignored: {error}", broker=broker, error=error)
        return brokers

    def load_topics(self, topics: Mapping[str, tuple[bytes, Stat] | None]) -> list[TopicPartition]:
        """Take ids and assignments of topics from their nodes; return the partitions that are new to the context."""
        without_id: list[tuple[str, TopicNode, int]] = []
        new: list[TopicPartition] = []
        # Of two topics with the same id, the older one keeps it.
        for topic, found in sorted(topics.items(), key=lambda each: 0 if each[1] is None else each[1][1].czxid):
            if found is None:
                continue
            if not is_legal_topic(topic):  # brokers would not find its directories again
                _log.error("Topic {topic} is ignored: it has no legal name", topic=repr(topic)[:300])
                continue
            try:
                node = TopicNode.decode(found[0])
            except BadNodeError as error:
                _log.error("Topic {topic} is ignored: {error}", topic=topic, error=error)
                continue
            other = "" if node.topic_id is None else self._context.topic_name(node.topic_id)
            if other not in ("", topic):
                _log.error("Topic {topic} is ignored: its id is that of topic {other}", topic=topic, other=other)
                continue
            if node.topic_id is None:
                without_id.append((topic, node, found[1].version))
            else:
                self._context.set_topic_id(topic, node.topic_id)
            new += self._take_assignments(topic, node)
        if without_id:
            self._give_ids(without_id)
        return new

    def _take_assignments(self, topic: str, node: TopicNode) -> list[TopicPartition]:
        known = self._context.assignments.setdefault(topic, {})
        new = []
        for index, replicas in sorted(node.partitions.items()):
            partition = TopicPartition(topic, index)
            if index not in known:
                new.append(partition)
            adding, removing = node.adding_replicas.get(index, ()), node.removing_replicas.get(index, ())
            self._context.assign(partition, ReplicaAssignment(replicas, adding, removing))
        return new

    def _give_ids(self, topics: list[tuple[str, TopicNode, int]]) -> None:
        """Give an id to topics that a Kafka before 2.8 created."""
        nodes = [
            (
                topic,
                version,
                TopicNode(
                    partitions=node.partitions,
                    topic_id=random_uuid(),
                    adding_replicas=node.adding_replicas,
                    removing_replicas=node.removing_replicas,
                ),
            )
            for topic, node, version in topics
        ]
        results = self._store.batch([[Set(znodes.topic_path(topic), node.encode(), version)] for topic, version, node in nodes])
        for (topic, _, node), result in zip(nodes, results, strict=True):
            if isinstance(result, StoreError):
                _log.error("Topic {topic} could not be given an id: {error}", topic=topic, error=result)
            elif node.topic_id is not None:
                self._context.set_topic_id(topic, node.topic_id)

    def load_leaderships(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, set[int]]:
        """Read the partitions' leaders and in-sync replicas; return the in-sync replicas that have restarted unnoticed.

        A controller that notices the end of a broker changes the states of its partitions. So a broker was not noticed that has
        registered after the last change. A partition with one replica is left out: nobody else has its records.
        """
        restarted = {}
        found = self._store.get_many([znodes.state_path(partition) for partition in partitions])
        for partition, node in zip(partitions, found, strict=True):
            if node is None:
                continue
            leadership = decoded_leadership(*node)
            if leadership is None:
                _log.error("The state of partition {partition} is malformed and is ignored", partition=partition)
                continue
            self._context.leaderships[partition] = leadership
            if len(self._context.assignment(partition).replicas) > 1:
                restarted[partition] = self._registered_since(node[1].mzxid, leadership.isr)
        return {partition: brokers for partition, brokers in restarted.items() if brokers}

    def _registered_since(self, zxid: int, brokers: Iterable[int]) -> set[int]:
        live = self._context.brokers
        return {broker for broker in brokers if broker in live and live[broker].epoch > zxid}


class NodeWatches:
    """Watches on the data of the brokers' and topics' nodes, by path; each node is watched once."""

    def __init__(self, store: FencedStore) -> None:
        self._store = store
        self._watches: dict[str, IWatch] = {}

    def watch_and_get(self, paths: Collection[str], changed: Callable[[WatchEvent], None]) -> list[tuple[bytes, Stat] | None]:
        """Call ``changed`` when a node's data change, unless the node is watched already; return the nodes as they are now.

        Changes of children are ignored: every partition adds one.
        """

        def notice(event: WatchEvent) -> None:
            if event.kind is EventKind.CHANGED:
                changed(event)

        new = [path for path in paths if path not in self._watches]
        found = dict(zip(new, self._store.watch_and_get(new, notice), strict=True))
        self._watches.update((path, watch) for path, (watch, _) in found.items())
        known = [path for path in paths if path not in found]
        nodes = dict(zip(known, self._store.get_many(known), strict=True)) | {path: node for path, (_, node) in found.items()}
        return [nodes[path] for path in paths]

    def forget(self, path: str) -> None:
        """Cancel the watch on this node."""
        watch = self._watches.pop(path, None)
        if watch is not None:
            watch.cancel()

    def forget_all(self) -> None:
        """Cancel all watches."""
        for path in list(self._watches):
            self.forget(path)
