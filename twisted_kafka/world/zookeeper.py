"""A simulated ZooKeeper: sessions that expire when a broker is silent, and lost answers.

The tree is the one that brokers of one process share in tests (``metadata/shared.py``). Its own servers never fail; the links to
them can be cut.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from typing_extensions import override

from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.shared import SharedStore, new_connect, share, unshare
from twisted_kafka.metadata.store import StoreDisconnectedError
from twisted_kafka.metadata.znodes import TOPICS, PartitionStateNode, TopicNode, state_path, topic_path
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.world.machine.clock import WorldClock
from twisted_kafka.world.machine.network import Host, Network
from twisted_kafka.world.machine.primitives import Thread
from twisted_kafka.world.machine.scheduler import Owner, Scheduler
from twisted_kafka.world.trace import Trace

SESSION_TIMEOUT_MS: Final = 6_000
REQUEST_TIMEOUT_NS: Final = 4_000_000_000
"""How long a broker waits for an answer through a link that is cut."""
RECONNECT_NS: Final = (10_000_000, 3_000_000_000)
"""How long it takes to reconnect after a lost answer."""
HEARTBEAT_NS: Final = 1_000_000_000
_RETRY_NS: Final = 50_000_000


class Session(SharedStore):
    """One broker's session. Requests take time, and may fail with StoreDisconnectedError, whether they had an effect or not."""

    def __init__(self, ensemble: "ZooKeeper", tree: SqliteStore, *, threaded: bool) -> None:
        self._ensemble = ensemble
        scheduler = ensemble.scheduler
        self.owner = scheduler.current.owner
        self.heard_ns = scheduler.now_ns
        self.is_over = False
        """Whether it has expired, and the broker has not noticed yet."""
        super().__init__(tree, threaded=threaded)

    @contextmanager
    @override
    def _acting(self) -> Iterator[SqliteStore]:
        self._ensemble.pass_request(self)
        with super()._acting() as tree:
            yield tree
        self._ensemble.pass_answer(self)


class ZooKeeper:
    """The ensemble, on a host of its own."""

    def __init__(self, scheduler: Scheduler, network: Network, trace: Trace, seed: int) -> None:
        self.scheduler = scheduler
        self.lost_answers = 0.0
        """The share of changes whose answer is lost (0 to 1)."""
        self.host = network.add_host("zookeeper", "10.3.0.1")
        self.connect = new_connect()
        self._network = network
        self._trace = trace
        self._random = Random(f"zookeeper {seed}")
        self._sessions: list[Session] = []
        self._owner = Owner("zookeeper")
        self._owner.host = self.host
        self._tree: SqliteStore | None = None
        share(self.connect, WorldClock(scheduler), make_session=self._make_session)
        scheduler.call_later(HEARTBEAT_NS, self._beat)

    def close(self) -> None:
        """Forget the tree."""
        self.scheduler.kill(self._owner)
        unshare(self.connect)

    def _make_session(self, tree: SqliteStore, connect: str, threaded: bool) -> SharedStore:
        self._tree = tree
        session = Session(self, tree, threaded=threaded)
        self._sessions.append(session)
        return session

    def in_sync(self, partition: TopicPartition) -> list[int]:
        """Return the brokers of a partition's in-sync replicas, the leader first; none while it has no leader."""
        node = None if self._tree is None else self._tree.get(state_path(partition))
        if node is None:
            return []
        state = PartitionStateNode.decode(node[0])
        return [state.leader, *[each for each in state.isr if each != state.leader]] if state.leader in state.isr else []

    def unreplicated(self) -> list[str]:
        """Return the partitions of which a replica is not in sync, or whose replicas are being moved."""
        return [str(each) for each, replicas in self._partitions().items() if sorted(self.in_sync(each)) != sorted(replicas)]

    def _partitions(self) -> dict[TopicPartition, list[int]]:
        """Return all partitions with their replicas."""
        tree = self._tree
        topics = [] if tree is None else [(topic, tree.get(topic_path(topic))) for topic in tree.children(TOPICS)]
        return {
            TopicPartition(topic, index): list(replicas)
            for topic, node in topics
            if node is not None
            for index, replicas in TopicNode.decode(node[0]).partitions.items()
        }

    # Requests

    def _hears(self, session: Session) -> bool:
        host: Host = session.owner.host
        network = self._network
        is_alive = not session.owner.is_dead and not session.owner.is_paused and host.is_up
        return is_alive and network.is_passable(host, self.host) and network.is_passable(self.host, host)

    def pass_request(self, session: Session) -> None:
        """Let a request take its time. Raises StoreDisconnectedError if it does not arrive."""
        scheduler = self.scheduler
        until_ns = scheduler.now_ns + REQUEST_TIMEOUT_NS
        scheduler.wait(self._network.delay_ns(0))
        while not self._hears(session):
            if scheduler.now_ns >= until_ns:
                raise StoreDisconnectedError(f"{session.owner.name} has no answer from ZooKeeper")
            scheduler.wait(_RETRY_NS)

    def pass_answer(self, session: Session) -> None:
        """Let an answer be lost, perhaps: the broker reconnects, and finds out whether its change was made.

        The real client does so as well (``metadata/zookeeper/outcomes.py``), so only time is lost, unless the link is cut then.
        """
        if self.lost_answers and self._random.random() < self.lost_answers:
            self._trace.note("zookeeper", f"loses an answer to {session.owner.name}")
            self.scheduler.wait(self._random.randint(*RECONNECT_NS))
            self.pass_request(session)

    # Sessions

    def _beat(self) -> None:
        """Note which brokers can be reached; expire the sessions of silent ones, and let the others renew an expired session."""
        scheduler = self.scheduler
        now_ns = scheduler.now_ns
        for session in list(self._sessions):
            if session.is_closed:
                self._sessions.remove(session)
            elif self._hears(session):
                session.heard_ns = now_ns
                if session.is_over:
                    session.is_over = False
                    self._spawn(session.owner, session.renew, "zookeeper-session-thread")
            elif not session.is_over and now_ns - session.heard_ns > SESSION_TIMEOUT_MS * 1_000_000:
                session.is_over = True
                self._trace.note("zookeeper", f"expires the session of {session.owner.name}")
                if session.owner.is_dead:
                    self._sessions.remove(session)
                self._spawn(self._owner, session.expire, "expiration")
        scheduler.call_later(HEARTBEAT_NS, self._beat)

    def _spawn(self, owner: Owner, run: Callable[[], object], name: str) -> None:
        self.scheduler.spawn_for(owner, Thread(self.scheduler, target=run, name=name).start)
