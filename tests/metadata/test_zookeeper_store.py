"""What is special about the store in ZooKeeper: lost connections, expired sessions, limits, ACLs."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

import twisted_kafka
from tests.support.cases import case
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.zookeeper import CREATE, DELETE, EXISTS, GET_DATA, GET_NAMES, MULTI, SET_DATA, SYNC, Proxy, ZooKeeper, proxied
from twisted_kafka.metadata.store import (
    AccessDeniedError,
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    Set,
    StoreDisconnectedError,
    StoreUnavailableError,
    TooLargeError,
    WatchEvent,
    latest_children_of,
)
from twisted_kafka.metadata.zookeeper.requests import MAX_REQUEST_BYTES
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore
from twisted_kafka.protocol.errors import ErrorCode, error_of
from twisted_kafka.timing.clock import SystemClock

pytestmark = pytest.mark.medium

_numbers = itertools.count()


class Cluster(NamedTuple):
    """A store that reaches its server through a proxy, and a client that does not."""

    store: ZooKeeperStore
    proxy: Proxy
    other: KazooClient


@pytest.fixture
def chroot() -> str:
    return f"/sessions/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def cluster(zookeeper: ZooKeeper, chroot: str) -> Iterator[Cluster]:
    with proxied(zookeeper) as proxy:
        store = ZooKeeperStore(ZooKeeperSettings(hosts=proxy.address, chroot=chroot))
        other = KazooClient(zookeeper.address + chroot)
        other.start()
        yield Cluster(store, proxy, other)
        other.stop()
        other.close()
        store.close()


class Listener:
    """Notes the states of a session."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.states: list[SessionState] = []
        store.add_session_listener(self.states.append)

    def await_state(self, state: SessionState) -> None:
        eventually(lambda: state in self.states, lambda: self.states)


def test_changes_whose_answers_are_lost_are_made_once(cluster: Cluster) -> None:
    store, proxy, _ = cluster
    session = store.session_id
    store.create("/a", b"before")
    proxy.lose_answer_of(CREATE)
    assert store.create("/made", b"x") == "/made"
    proxy.lose_answer_of(CREATE)
    assert store.create("/mine", b"x", ephemeral=True) == "/mine"
    assert store.exists("/mine").ephemeral_owner == store.session_id
    proxy.lose_answer_of(SET_DATA)
    assert store.set("/a", b"one", 0).version == 1
    proxy.lose_answer_of(DELETE)
    store.delete("/made")
    proxy.lose_answer_of(MULTI)
    stat, path, nothing, _ = store.multi([Set("/a", b"two", 1), Create("/b", b"new"), Delete("/mine"), Check("/")])
    assert (stat.version, path, nothing) == (2, "/b", None)
    proxy.lose_answer_of(GET_DATA)
    assert store.get("/a") == (b"two", stat)
    assert proxy.requests.count(SET_DATA) == 2
    assert proxy.requests.count(MULTI) == 2
    assert store.session_id == session


def test_changes_that_others_made_are_not_taken_for_ones_own(cluster: Cluster) -> None:
    store, proxy, other = cluster
    other.create("/theirs", b"same")
    other.create("/a", b"same")
    other.set("/a", b"same")
    store.get("/a")
    for kind, action, error in (
        (CREATE, lambda: store.create("/theirs", b"same"), NodeExistsError),
        (CREATE, lambda: store.create("/theirs", b"same", ephemeral=True), NodeExistsError),
        (CREATE, lambda: store.create("/theirs", b"other"), NodeExistsError),
        (SET_DATA, lambda: store.set("/a", b"same", 0), BadVersionError),
        (SET_DATA, lambda: store.set("/none", b"same", 0), NoNodeError),
        (MULTI, lambda: store.multi([Set("/a", b"same", 0), Create("/b")]), BadVersionError),
        (MULTI, lambda: store.multi([Set("/a", b"same", 1), Create("/theirs", b"same")]), NodeExistsError),
    ):
        with case(kind=kind, error=error):
            proxy.lose_answer_of(kind)
            with pytest.raises(error):
                action()
    assert store.get("/a")[1].version == 1


def test_a_batch_goes_on_after_a_lost_connection(cluster: Cluster) -> None:
    store, proxy, _ = cluster
    paths = [f"/n{number}" for number in range(50)]
    store.batch([[Create(path)] for path in paths])
    proxy.lose_answer_of(MULTI)
    results = store.batch([[Create(f"{path}/child"), Set(path, b"x", 0)] for path in paths])
    assert [each if isinstance(each, Exception) else each[1].version for each in results] == [1] * 50


def test_calls_wait_for_a_new_connection_but_not_for_ever(zookeeper: ZooKeeper, chroot: str) -> None:
    with proxied(zookeeper) as proxy:
        settings = ZooKeeperSettings(hosts=proxy.address, chroot=chroot, connection_timeout_ms=1000)
        store = ZooKeeperStore(settings)
        proxy.cut()
        with pytest.raises(StoreDisconnectedError, match="no answer from ZooKeeper") as caught:
            store.create("/a")
        assert error_of(caught.value) == ErrorCode.REQUEST_TIMED_OUT
        proxy.mend()
        eventually(lambda: _succeeds(lambda: store.create("/a", make_parents=True)))
        store.close()


def _succeeds(action: Any) -> bool:
    try:
        action()
    except StoreDisconnectedError:
        return False
    except NodeExistsError:
        pass
    return True


def test_nobody_answers(zookeeper: ZooKeeper, chroot: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailableError, match=f"cannot connect to ZooKeeper at {address} within 300 ms: .*refused"):
        ZooKeeperStore(ZooKeeperSettings(hosts=address, connection_timeout_ms=300))


def test_a_watch_misses_nothing_while_there_is_no_connection(cluster: Cluster) -> None:
    store, proxy, other = cluster
    store.create("/a/child", b"", make_parents=True)
    store.create("/gone")
    heard: dict[str, set[EventKind]] = {path: set() for path in ("/a", "/gone", "/new", "/same")}
    names: list[frozenset[str]] = []
    store.create("/same")

    def hear(event: WatchEvent) -> None:
        heard[event.path].add(event.kind)
        if event.kind is EventKind.CHILDREN:
            names.append(event.names)

    for path in heard:
        store.watch(path, hear)
    store.get("/a")
    proxy.cut()
    other.set("/a", b"changed")
    other.create("/a/second")
    other.delete("/gone")
    other.create("/new")
    proxy.mend()
    eventually(
        lambda: (
            heard
            == {
                "/a": {EventKind.CHANGED, EventKind.CHILDREN},
                "/gone": {EventKind.DELETED},
                "/new": {EventKind.CREATED},
                "/same": set(),
            }
        ),
        lambda: heard,
    )
    assert names == [frozenset({"second"})]


def test_a_watch_that_is_set_without_a_connection_says_that_something_may_have_changed(cluster: Cluster) -> None:
    store, proxy, other = cluster
    store.create("/a")
    listener = Listener(store)
    proxy.cut()
    listener.await_state(SessionState.SUSPENDED)
    heard: list[WatchEvent] = []
    store.watch("/a", heard.append)
    other.create("/a/b")
    proxy.mend()
    eventually(lambda: WatchEvent(EventKind.CHILDREN, "/a") in heard, lambda: heard)


def test_a_child_that_comes_and_goes_is_not_named_but_heard_of(cluster: Cluster) -> None:
    store, proxy, other = cluster
    store.create("/a")
    heard: list[WatchEvent] = []
    store.watch("/a", heard.append)
    store.get("/a")
    proxy.cut()
    other.create("/a/b")
    other.delete("/a/b")
    proxy.mend()
    eventually(lambda: heard)
    assert heard == [WatchEvent(EventKind.CHILDREN, "/a", frozenset())]


def test_an_expired_session_is_replaced(cluster: Cluster) -> None:
    store, proxy, other = cluster
    first = store.session_id
    store.create("/ids/1", ephemeral=True, make_parents=True)
    heard: list[WatchEvent] = []
    store.watch("/ids", heard.append)
    store.get("/ids")
    sessions: list[tuple[SessionState, int]] = []
    store.add_session_listener(lambda state: sessions.append((state, store.session_id)))
    proxy.expire()
    eventually(lambda: SessionState.CONNECTED in [state for state, _ in sessions], lambda: sessions)
    assert sessions[-2:] == [(SessionState.EXPIRED, first), (SessionState.CONNECTED, store.session_id)]
    assert store.session_id not in (0, first)
    eventually(lambda: heard)
    assert heard == [WatchEvent(EventKind.CHILDREN, "/ids", frozenset("1"))]
    store.create("/ids/1", ephemeral=True)
    assert other.exists("/ids/1").ephemeralOwner == store.session_id
    eventually(lambda: len(heard) == 2)


def test_nothing_of_an_expired_session_takes_effect_in_the_next_one(cluster: Cluster) -> None:
    store, proxy, _ = cluster
    store.create("/a")
    refused: list[type[Exception]] = []

    def act(state: SessionState) -> None:
        """As a controller does: something is under way, and is over when this returns."""
        if state is SessionState.EXPIRED:
            for action in (lambda: store.set("/a", b"old"), lambda: store.create("/old"), lambda: store.get("/a")):
                try:
                    action()
                except Exception as error:  # noqa: BLE001 - whatever it is
                    refused.append(type(error))

    store.add_session_listener(act)
    listener = Listener(store)
    proxy.expire()
    listener.await_state(SessionState.CONNECTED)
    assert refused == [SessionExpiredError] * 3
    assert store.get("/a")[0] == b""
    assert store.exists("/old") is None


def test_a_call_that_waits_when_the_session_expires_fails(cluster: Cluster) -> None:
    store, proxy, _ = cluster
    listener = Listener(store)
    proxy.cut()
    listener.await_state(SessionState.SUSPENDED)
    failed: list[Exception] = []

    def call() -> None:
        try:
            store.create("/old")
        except SessionExpiredError as error:
            failed.append(error)

    waiting = threading.Thread(target=call)
    waiting.start()
    eventually(lambda: "_await_connection" in _functions_of(waiting))
    proxy.expire()
    proxy.mend()
    waiting.join()
    assert len(failed) == 1
    listener.await_state(SessionState.EXPIRED)
    listener.await_state(SessionState.CONNECTED)
    assert store.exists("/old") is None


def _functions_of(thread: threading.Thread) -> set[str]:
    frame = sys._current_frames().get(thread.ident)
    names = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_a_request_that_kazoo_completes_twice_gives_its_place_back_once(chroot: str, zookeeper: ZooKeeper) -> None:
    store = ZooKeeperStore(ZooKeeperSettings(hosts=zookeeper.address, chroot=chroot, max_in_flight=2))
    unanswered = []

    def send(client: KazooClient) -> Any:
        unanswered.append(client.handler.async_result())
        return unanswered[-1]

    assert store._session.send_if_connected(send) is not None
    unanswered[0].set("answer")
    unanswered[0].set_exception(ConnectionLoss())  # the session ends just as the answer comes
    for _ in range(2):
        assert store._session.send_if_connected(send) is not None
    with pytest.raises(StoreDisconnectedError):
        store._session.send(send, store._session.deadline_ns() - 10**12)
    for each in unanswered[1:]:
        each.set("answer")
    assert store.exists("/") is not None
    store.close()


def test_reading_and_watching_a_node_is_one_request(cluster: Cluster) -> None:
    store, proxy, other = cluster
    paths = [f"/n{number}" for number in range(100)]
    store.batch([[Create(path, path.encode())] for path in paths])
    before = len(proxy.requests)
    heard: list[WatchEvent] = []
    found = store.watch_and_get(paths, heard.append)
    assert [node[0] for _, node in found] == [path.encode() for path in paths]
    assert proxy.requests[before:] == [GET_DATA] * 100
    other.set("/n7", b"x")
    eventually(lambda: heard == [WatchEvent(EventKind.CHANGED, "/n7")], lambda: heard)


def test_the_latest_children_are_read_from_a_server_that_has_caught_up(cluster: Cluster) -> None:
    store, proxy, other = cluster
    before = len(proxy.requests)
    with pytest.raises(NoNodeError):
        latest_children_of(store, "/topics")
    other.create("/topics/orders", makepath=True)
    proxy.lose_answer_of(SYNC)
    assert latest_children_of(store, "/topics") == ["orders"]
    asked = [each for each in proxy.requests[before:] if each in (SYNC, GET_NAMES)]
    assert asked == [SYNC, GET_NAMES, SYNC, SYNC, GET_NAMES]


def test_nodes_whose_reading_was_interrupted_are_watched(cluster: Cluster) -> None:
    store, proxy, other = cluster
    for path in ("/a", "/b"):
        store.create(path)
    heard: list[WatchEvent] = []
    proxy.lose_answer_of(GET_DATA)
    assert len(store.watch_and_get(["/a", "/b"], heard.append)) == 2
    heard.clear()
    for path in ("/a", "/b"):
        other.set(path, b"x")
    eventually(lambda: {each.path for each in heard} == {"/a", "/b"}, lambda: heard)


@pytest.mark.slow  # ZooKeeper starts twice
def test_a_server_that_restarts_keeps_the_session(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    server = ZooKeeper(tmp_path / "server")
    server.start()
    with proxied(server) as proxy:
        store = ZooKeeperStore(ZooKeeperSettings(hosts=proxy.address, connection_timeout_ms=60_000))
        session = store.session_id
        store.create("/mine", ephemeral=True)
        proxy.cut()  # who connects before ZooKeeper has loaded its data may never be answered, and waits as long as the session
        server.kill()
        server.start()
        proxy.mend()
        assert store.exists("/mine").ephemeral_owner == session == store.session_id
        store.close()
    server.kill()


def test_a_change_that_is_too_large_is_refused_before_it_breaks_the_connection(cluster: Cluster) -> None:
    store, proxy, _ = cluster
    connections = proxy.connections
    half = b"x" * (MAX_REQUEST_BYTES // 2 - 200)
    assert store.multi([Create("/a", half), Create("/b", half)]) == ["/a", "/b"]
    with pytest.raises(TooLargeError):
        store.multi([Set("/a", half), Set("/b", half + b"x" * 1000), Check("/a")])
    with pytest.raises(TooLargeError):
        store.create("/c", b"x" * MAX_REQUEST_BYTES)
    small, large, last = store.batch([[Set("/a", b"1")], [Set("/b", b"x" * MAX_REQUEST_BYTES)], [Set("/b", b"2")]])
    assert isinstance(large, TooLargeError)
    assert [small[0].version, last[0].version] == [1, 1]
    # Together they exceed the limit, but are not one transaction.
    assert [each[0].version for each in store.batch([[Set("/a", half)], [Set("/b", half)], [Set("/a", half)]])] == [2, 2, 3]
    assert proxy.connections == connections


@pytest.mark.slow
def test_many_nodes_below_one_are_deleted_in_several_transactions(cluster: Cluster) -> None:
    store, _, other = cluster
    store.create("/deep/er", make_parents=True)
    store.batch([[Create(f"/deep/er/{number}")] for number in range(1200)])
    store.delete("/deep", recursive=True)
    assert other.exists("/deep") is None


def test_the_chroot_is_created_and_others_do_not_see_it(cluster: Cluster, chroot: str, zookeeper: ZooKeeper) -> None:
    cluster.store.create("/a", b"here")
    with pytest.raises(NodeExistsError):
        cluster.store.create("/")
    root = ZooKeeperStore(ZooKeeperSettings(hosts=zookeeper.address))
    assert root.get(f"{chroot}/a")[0] == b"here"
    assert root.exists("/a") is None
    root.close()


def test_acls_are_kafkas(zookeeper: ZooKeeper, chroot: str) -> None:
    def connect(**settings: Any) -> ZooKeeperStore:
        return ZooKeeperStore(ZooKeeperSettings(hosts=zookeeper.address, chroot=chroot, **settings))

    secure = connect(secure_acls=True, digest="kafka:secret")
    anybody = connect()
    other = KazooClient(zookeeper.address + chroot)
    other.start()
    for path, scheme_and_permissions in (
        ("/brokers/ids/1", {("digest", 31), ("world", 1)}),
        ("/config/topics/a", {("digest", 31), ("world", 1)}),
        ("/config/users/alice", {("digest", 31)}),
        ("/config/brokers/1", {("digest", 31)}),
        ("/delegation_token/tokens/a", {("digest", 31)}),
        ("/delegation_token/token_changes", {("digest", 31), ("world", 1)}),
        ("/consumers", {("world", 31)}),
        ("/consumers/group", {("digest", 31), ("world", 1)}),
    ):
        with case(path=path):
            secure.create(path, b"x", make_parents=True)
            secure.set(path, b"y")
            admin = KazooClient(zookeeper.address + chroot, auth_data=[("digest", "kafka:secret")])
            admin.start()
            assert {(acl.id.scheme, acl.perms) for acl in admin.get_acls(path)[0]} == scheme_and_permissions
            admin.stop()
            admin.close()
    assert anybody.get("/config/topics/a")[0] == b"y"
    for refused in (
        lambda: anybody.get("/config/users/alice"),
        lambda: anybody.set("/config/topics/a", b"z"),
        lambda: anybody.multi([Set("/consumers", b""), Create("/brokers/ids/2")]),
    ):
        with pytest.raises(AccessDeniedError):
            refused()
    for each in (secure, anybody):
        each.close()
    other.stop()
    other.close()


KILLED = """
import sys
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore
store = ZooKeeperStore(ZooKeeperSettings(hosts=sys.argv[1], chroot=sys.argv[2], session_timeout_ms=1000))
store.create("/ids/1", ephemeral=True, make_parents=True)
for number in range(1000000):
    store.create("/q/n_" if number else "/q", b"%d" % number, sequence=number > 0)
    print(number, flush=True)
"""


def test_acknowledged_changes_survive_kill_9(zookeeper: ZooKeeper, chroot: str) -> None:
    root = Path(twisted_kafka.__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, zookeeper.address, chroot],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    for _ in range(50):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    acknowledged = 49 + len(process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    store = ZooKeeperStore(ZooKeeperSettings(hosts=zookeeper.address, chroot=chroot))
    eventually(lambda: store.children("/ids") == [])
    assert acknowledged <= len(store.children("/q")) <= acknowledged + 1
    store.close()


def test_a_store_keeps_its_password_out_of_sight() -> None:
    assert "secret" not in repr(ZooKeeperSettings(hosts="a", digest="kafka:secret"))


def test_a_silent_connection_is_noticed_although_requests_are_sent(zookeeper: ZooKeeper, chroot: str) -> None:
    with proxied(zookeeper) as proxy:
        settings = ZooKeeperSettings(hosts=proxy.address, chroot=chroot, session_timeout_ms=1_000, max_in_flight=1_000_000)
        store = ZooKeeperStore(settings)
        listener = Listener(store)
        before = proxy.connections
        proxy.fall_silent()

        def ask() -> bool:
            store._session.send_if_connected(lambda client: client.exists_async("/"))
            return SessionState.SUSPENDED in listener.states

        eventually(ask, lambda: listener.states)
        eventually(lambda: proxy.connections > before)
        assert store.exists("/") is not None
        store.close()


@pytest.mark.parametrize("lost", [EXISTS, CREATE])
def test_a_start_asks_again_when_its_first_answer_is_lost(zookeeper: ZooKeeper, chroot: str, lost: int) -> None:
    with proxied(zookeeper) as proxy:
        proxy.lose_answer_of(lost)
        store = ZooKeeperStore(ZooKeeperSettings(hosts=proxy.address, chroot=chroot))
        assert store.exists("/") is not None
        store.close()


class TickingClock(SystemClock):
    """Time that passes by a millisecond each time that somebody looks."""

    def __init__(self) -> None:
        self._looks = itertools.count()

    def monotonic_ns(self) -> int:
        return next(self._looks) * 1_000_000


def test_a_batch_may_take_as_long_as_it_is_large(zookeeper: ZooKeeper, chroot: str) -> None:
    settings = ZooKeeperSettings(hosts=zookeeper.address, chroot=chroot, connection_timeout_ms=200)
    store = ZooKeeperStore(settings, TickingClock())
    assert store.get_many(["/none"] * 500) == [None] * 500
    results = store.batch([[Create(f"/n{number}")] for number in range(300)])
    assert not [each for each in results if isinstance(each, Exception)]
    store.close()


def test_nothing_is_left_of_watches_of_nodes_that_are_gone(cluster: Cluster) -> None:
    store, _, _ = cluster
    store.create("/topics")
    nodes = store._nodes._nodes
    for number in range(30):
        path = f"/topics/t{number}"
        store.create(path)
        ((watch, _),) = store.watch_and_get([path], lambda _: None)
        store.delete(path)
        if number % 2:
            eventually(lambda path=path: path not in nodes or nodes[path].stat is None)  # type: ignore[misc]
        watch.cancel()
    eventually(lambda: not nodes, lambda: list(nodes))
    store.sync("/")
    kazoo = store._session._client
    assert kazoo is not None
    assert not [path for path in kazoo._data_watchers if "/topics/" in path]
    heard: list[EventKind] = []
    watch = store.watch("/topics/t1", lambda event: heard.append(event.kind))
    store.create("/topics/t1")
    eventually(lambda: EventKind.CREATED in heard, lambda: heard)
    watch.cancel()
