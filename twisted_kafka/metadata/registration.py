"""A broker's start in the metadata store: the persistent nodes, the cluster id, and the broker's registration."""

from collections.abc import Collection, Iterable
from contextlib import suppress

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.features import SUPPORTED
from twisted_kafka.metadata.store import Create, IMetadataStore, NodeExistsError, NoNodeError, StoreError, children_of, split_path
from twisted_kafka.metadata.znodes import BrokerNode, ClusterIdNode
from twisted_kafka.metadata.znodes_admin import LogDirEventNode
from twisted_kafka.protocol.compiler.types import random_uuid, uuid_text


class BrokerIdTakenError(StoreError):
    """Another live broker is registered with this id."""


class OtherBrokersError(StoreError):
    """Other brokers are registered in a store that is one broker's alone."""


def prepare_store(store: IMetadataStore) -> None:
    """Create the missing ones of the nodes that every Kafka cluster has, in one batch."""
    required: dict[str, None] = {}
    for path in znodes.PERSISTENT_PATHS:
        parents = [path]
        while (parent := split_path(parents[-1])[0]) != "/":
            parents.append(parent)
        required.update(dict.fromkeys(reversed(parents)))
    missing = [path for path, found in zip(required, store.get_many(list(required)), strict=True) if found is None]
    if not missing:
        return
    for result in store.batch([[Create(path)] for path in missing]):
        if isinstance(result, StoreError) and not isinstance(result, NodeExistsError):  # by another broker
            raise result


def cluster_id(store: IMetadataStore, wanted: str | None = None) -> str:
    """Return the cluster id; if it does not exist, create it as ``wanted``, or a random one."""
    found = store.get(znodes.CLUSTER_ID)
    if found is None:
        node = ClusterIdNode(wanted or uuid_text(random_uuid()))
        try:
            store.create(znodes.CLUSTER_ID, node.encode(), make_parents=True)
        except NodeExistsError:
            return cluster_id(store)
        return node.cluster_id
    return ClusterIdNode.decode(found[0]).cluster_id


def broker_node(end_points: Iterable[EndPoint], *, rack: str | None, now_ms: int) -> BrokerNode:
    """Return the registration of a broker with these advertised end points, which must have their actual ports."""
    points = list(end_points)
    plain = next((point for point in points if point.security_protocol == "PLAINTEXT"), None)
    return BrokerNode(
        endpoints=[point.text for point in points],
        listener_security_protocol_map={point.listener_name: point.security_protocol for point in points},
        timestamp_ms=now_ms,
        rack=rack,
        host=None if plain is None else plain.host,
        port=-1 if plain is None else plain.port,
        # Controllers before Kafka 3.9 cannot read a registration with a level below 1. Level 0 is never finalized.
        features={name: {"min_version": max(1, low), "max_version": high} for name, (low, high) in SUPPORTED.items()},
    )


def register_broker(store: IMetadataStore, broker_id: int, node: BrokerNode, former_sessions: Collection[int] = ()) -> int:
    """Register the broker for the lifetime of the store's session; return its broker epoch.

    A registration of ``former_sessions``, which are this process's own, is replaced (Kafka: ``CheckedEphemeral``). Raises
    BrokerIdTakenError when another session has registered the id.
    """
    path = znodes.broker_path(broker_id)
    found = store.exists(path)
    if found is not None and found.ephemeral_owner == store.session_id:
        store.set(path, node.encode())
        return found.czxid
    if found is not None and found.ephemeral_owner in former_sessions:
        with suppress(NoNodeError):  # it has expired since
            store.delete(path, found.version)
    try:
        store.create(path, node.encode(), ephemeral=True, make_parents=True)
    except NodeExistsError:
        raise BrokerIdTakenError(f"a broker with the id {broker_id} is already registered") from None
    stat = store.exists(path)
    if stat is None:
        raise NoNodeError(f"the node {path} was deleted right after its creation")
    return stat.czxid


def refuse_others(store: IMetadataStore, broker_id: int, before_zxid: int | None = None) -> None:
    """Raise OtherBrokersError if other brokers are registered, with ``before_zxid`` since before that transaction."""
    names = [name for name in children_of(store, znodes.BROKER_IDS) if name != str(broker_id)]
    found = zip(names, store.get_many([f"{znodes.BROKER_IDS}/{name}" for name in names]), strict=True)
    others = [name for name, each in found if each is not None and (before_zxid is None or each[1].czxid < before_zxid)]
    if others:
        raise OtherBrokersError(
            f"broker {', '.join(others)} is registered in this metadata store, which is one broker's alone: for several set "
            f"zookeeper.connect (this is broker {broker_id})"
        )


def notify_log_dir_event(store: IMetadataStore, broker_id: int) -> None:
    """Notify the controller, which asks the broker for the state of its replicas (Kafka: ``propagateLogDirEvent``)."""
    store.create(znodes.LOG_DIR_EVENT_PREFIX, LogDirEventNode(broker_id).encode(), sequence=True, make_parents=True)
