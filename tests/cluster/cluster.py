"""Several brokers, of either kind, on a ZooKeeper of their own, with everything that can be done to them."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.cluster.brokers import BrokerProcess, Kind
from tests.cluster.network import Network
from tests.support.budget import patient
from tests.support.eventually import eventually
from tests.support.zookeeper import Ensemble, Proxy, ZooKeeper, needs_zookeeper

SESSION_MS = 3000
LAG_MS = 3000
WAIT_S = patient(120.0)
"""How long a cluster may take until it is whole again, on a busy machine."""
_PAUSE_S = 0.1

SETTINGS: dict[str, object] = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "zookeeper.session.timeout.ms": SESSION_MS,
    "zookeeper.connection.timeout.ms": 60_000,
    "replica.lag.time.max.ms": LAG_MS,
    "replica.fetch.wait.max.ms": 200,
    "replica.socket.timeout.ms": 3000,
    "controller.socket.timeout.ms": 3000,
    "request.timeout.ms": 3000,
    "controlled.shutdown.retry.backoff.ms": 200,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.check.interval.ms": 3_600_000,
    "num.network.threads": 1,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
}


class State(NamedTuple):
    """Of a partition: who leads, and who is in sync, as ZooKeeper has it."""

    leader: int
    in_sync: tuple[int, ...]
    leader_epoch: int


class Cluster:
    """Brokers with the ids 1 to N; ``kinds`` says whose each is. With ``is_direct`` no proxy is between them.

    They use ``ensemble`` if there is one, which is started and killed with them; no proxy is between it and them.
    """

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[Kind],
        *,
        is_direct: bool = False,
        ensemble: Ensemble | None = None,
        **settings: object,
    ) -> None:
        self.directory = directory
        self.members: set[int] = set()
        """The brokers that belong to the cluster: that were started once, and not taken out."""
        self._is_direct = is_direct
        self._reaches_zookeeper_directly = is_direct or ensemble is not None
        self.zookeeper = ensemble or ZooKeeper(directory / "zookeeper")
        self.brokers = {number: BrokerProcess(kind, number, directory / f"broker-{number}") for number, kind in enumerate(kinds, 1)}
        self.network = Network(lambda: {each.pid: each.id for each in self.brokers.values() if each.pid is not None})
        self.sessions: dict[int, Proxy] = {}
        """Each broker's way to ZooKeeper."""
        self._settings = SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
        self._nodes: KazooClient | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def prepare(self) -> None:
        """Start ZooKeeper, and give the brokers their settings."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.zookeeper.start()
        self._nodes = KazooClient(self.zookeeper.address, timeout=30, connection_retry={"max_tries": -1, "max_delay": 0.5})
        self._nodes.start(60)
        copies = min(3, len(self.brokers))
        for broker in self.brokers.values():
            proxy = self.sessions[broker.id] = Proxy(self.zookeeper.port)
            public = broker.internal_port if self._is_direct else self.network.add(broker.id, broker.internal_port)
            broker.settings = {
                "broker.id": broker.id,
                "listeners": f"CLIENTS://127.0.0.1:{broker.port},BROKERS://127.0.0.1:{broker.internal_port}",
                "advertised.listeners": f"CLIENTS://127.0.0.1:{broker.port},BROKERS://127.0.0.1:{public}",
                "log.dirs": ",".join(map(str, broker.log_dirs)),
                "zookeeper.connect": self.zookeeper.address if self._reaches_zookeeper_directly else proxy.address,
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "share.coordinator.state.topic.replication.factor": copies,
                **self._settings,
            }
            if broker.kind is Kind.OURS:
                broker.settings["access.log.dir"] = broker.directory / "access"

    def start_brokers(self, *ids: int) -> None:
        """Start these at the same time, and wait until they serve and are registered."""
        self.members |= set(ids)
        for each in ids:
            self.brokers[each].launch()
        for each in ids:
            self.brokers[each].wait_until_it_answers()
        eventually(lambda: set(ids) <= self.registered(), lambda: self._tails("not registered"), WAIT_S, _PAUSE_S)

    def end(self) -> None:
        """Kill everything."""
        self.network.mend()
        for broker in self.brokers.values():
            broker.kill()
        self.network.close()
        for proxy in self.sessions.values():
            proxy.close()
        if self._nodes is not None:
            self._nodes.stop()
            self._nodes.close()
        self.zookeeper.kill()

    # What ZooKeeper says

    def registered(self) -> set[int]:
        """Return the ids of the brokers that have registered."""
        return {int(name) for name in self._children("/brokers/ids")}

    def controller(self) -> int:
        """Return who is the controller; wait until somebody is."""
        return eventually(lambda: self._controller(), wait_s=WAIT_S, pause_s=_PAUSE_S)

    def _controller(self) -> int:
        data = self._read("/controller")
        return int(json.loads(data)["brokerid"]) if data else 0

    def states(self, topic: str) -> dict[int, State]:
        """Return the state of each partition of a topic that has one."""
        found = {}
        for name in self._children(f"/brokers/topics/{topic}/partitions"):
            data = self._read(f"/brokers/topics/{topic}/partitions/{name}/state")
            if data is not None:
                state = json.loads(data)
                found[int(name)] = State(state["leader"], tuple(state["isr"]), state["leader_epoch"])
        return found

    def leaders(self, topics: Sequence[str]) -> set[int]:
        """Return who leads the first partitions of many topics."""
        asked = [self._nodes.get_async(f"/brokers/topics/{topic}/partitions/0/state") for topic in topics]
        return {int(json.loads(each.get(WAIT_S)[0])["leader"]) for each in asked}

    def replicas(self, topic: str) -> dict[int, list[int]]:
        """Return the replicas of each partition of a topic."""
        data = self._read(f"/brokers/topics/{topic}")
        return {} if data is None else {int(part): ids for part, ids in json.loads(data)["partitions"].items()}

    def reassigned(self, topic: str) -> set[int]:
        """Return the partitions of a topic whose reassignment has not ended."""
        data = json.loads(self._read(f"/brokers/topics/{topic}") or b"{}")
        return {int(part) for key in ("adding_replicas", "removing_replicas") for part, ids in data.get(key, {}).items() if ids}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return who leads a partition; wait until somebody who runs does."""

        def found() -> int:
            state = self.states(topic).get(partition)
            return state.leader if state and state.leader > 0 and self.brokers[state.leader].is_running else 0

        return eventually(found, lambda: self._tails(f"nobody leads {topic}"), WAIT_S, _PAUSE_S)

    def wait_until_gone(self, broker_id: int) -> None:
        """Wait until a broker that was killed leads nothing any more."""

        def has_gone() -> bool:
            states = (state for topic in self._children("/brokers/topics") for state in self.states(topic).values())
            return broker_id not in self.registered() and all(state.leader != broker_id for state in states)

        eventually(has_gone, lambda: self._tails(f"{broker_id} still leads"), WAIT_S, _PAUSE_S)

    def wait_until_whole(self) -> None:
        """Wait until all brokers are registered, and all replicas of all partitions in sync."""
        eventually(self._is_whole, lambda: self._tails(f"not whole: {self._lacking()}"), WAIT_S, _PAUSE_S)

    def _is_whole(self) -> bool:
        return self.registered() == self.members and not self._lacking()

    def _lacking(self) -> list[tuple[str, int, State | None]]:
        lacking = []
        for topic in self._children("/brokers/topics"):
            states = self.states(topic)
            for partition, ids in self.replicas(topic).items():
                state = states.get(partition)
                if state is None or state.leader < 0 or set(state.in_sync) != set(ids):
                    lacking.append((topic, partition, state))
        return lacking

    def children_version(self, path: str) -> int:
        """Return how often a child of a node was created or deleted."""
        stat = self._nodes.retry(self._nodes.exists, path)
        return 0 if stat is None else int(stat.cversion)

    def _children(self, path: str) -> list[str]:
        try:
            children: list[str] = self._nodes.retry(self._nodes.get_children, path)
        except NoNodeError:
            return []
        return children

    def _read(self, path: str) -> bytes | None:
        try:
            data: bytes = self._nodes.retry(self._nodes.get, path)[0]
        except NoNodeError:
            return None
        return data

    def _tails(self, what: str) -> str:
        tails = (f"--- {broker.id} ({broker.kind.value}):\n{broker.tail(1500)}" for broker in self.brokers.values())
        return f"{what}; registered: {self.registered()}, controller: {self._controller()}\n" + "\n".join(tails)

    # What an administrator does

    def create_topic(self, name: str, partitions: int, replication: int, **configs: object) -> None:
        """Create a topic, and wait until it is whole."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        made = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=settings)

        def create() -> bool:
            try:
                admin.create_topics([made], operation_timeout=10, request_timeout=15)[name].result(30)
            except KafkaException as error:
                return error.args[0].name() == "TOPIC_ALREADY_EXISTS"
            return True

        eventually(create, lambda: self._tails(f"{name} was not created"), WAIT_S, _PAUSE_S)
        eventually(lambda: len(self.states(name)) == partitions, lambda: self._tails(f"no states of {name}"), WAIT_S, _PAUSE_S)
        self.wait_until_whole()

    # What happens to it

    @contextmanager
    def paused(self, broker_id: int) -> Iterator[None]:
        """Have a broker stand still, as after SIGSTOP."""
        self.brokers[broker_id].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.brokers[broker_id].signal(signal.SIGCONT)

    @contextmanager
    def isolated(self, broker_id: int, *, from_zookeeper: bool = False) -> Iterator[None]:
        """Have a broker not hear of the other brokers, nor they of it."""
        self.network.isolate(broker_id, self.brokers)
        if from_zookeeper:
            self.sessions[broker_id].cut()
        try:
            yield
        finally:
            self.sessions[broker_id].mend()
            self.network.mend()

    @contextmanager
    def silenced(self, broker_id: int) -> Iterator[None]:
        """Have the other brokers hear nothing of one, which hears them."""
        self.network.cut([broker_id], self.brokers)
        try:
            yield
        finally:
            self.network.mend()

    @contextmanager
    def deafened(self, broker_id: int) -> Iterator[None]:
        """Have a broker hear nothing of the others, which hear it."""
        self.network.cut(self.brokers, [broker_id])
        try:
            yield
        finally:
            self.network.mend()

    def expire_session(self, broker_id: int) -> None:
        """End a broker's session in ZooKeeper."""
        self.sessions[broker_id].expire()


@contextmanager
def prepared(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose ZooKeeper runs, and none of its brokers; everything is killed at the end."""
    needs_zookeeper()
    try:
        cluster.prepare()
        yield cluster
    finally:
        cluster.end()


@contextmanager
def running(cluster: Cluster, *ids: int) -> Iterator[Cluster]:
    """A cluster of which these brokers are registered, all without ``ids``; everything is killed at the end."""
    with prepared(cluster):
        cluster.start_brokers(*(ids or cluster.brokers))
        yield cluster


def wait_for_progress(acknowledged: Callable[[], int], more: int = 20) -> None:
    """Wait until some more records are acknowledged."""
    goal = acknowledged() + more
    eventually(lambda: acknowledged() >= goal, lambda: f"{acknowledged()} of {goal} acknowledged", WAIT_S, _PAUSE_S)


def rest(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)
