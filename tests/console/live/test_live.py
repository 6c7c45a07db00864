import pickle
from collections.abc import Callable, Iterator

import pytest

import twisted_kafka
from tests.support.console import join_consumer, make_topic, session_in, write
from tests.support.eventually import eventually
from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.client.errors import NotAResponseError
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.cluster.connections import Connections
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.live import capture
from twisted_kafka.console.live.lag_history import MOST_GROUPS, MOST_POINTS, LagHistory
from twisted_kafka.console.live.live import Live
from twisted_kafka.console.live.requests import RequestFilter
from twisted_kafka.console.queries.groups import GroupDetail, PartitionLag, group
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import EnvelopeRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.sasl import SaslHandshakeRequest
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock, SystemClock


@pytest.fixture
def live(broker: twisted_kafka.Broker) -> Iterator[Live]:
    made = broker._server.live()
    yield made
    made.stop()


@pytest.fixture
def client(broker: twisted_kafka.Broker) -> Iterator[Session]:
    """A client with a socket."""
    connections = Connections([parse_address(broker.bootstrap_servers)], {}, 20, "a-client")
    with Session(connections, SystemClock(), 20) as made:
        yield made


def test_requests_are_shown_from_the_first_look_on(
    live: Live, session: Session, client: Session, name: Callable[[str], str]
) -> None:
    topic = make_topic(session, name("t"))
    client.metadata([])
    assert live.requests(session, RequestFilter()) == ()
    write(client, topic, [Written(b"k", b"secret value")])
    produces = RequestFilter(api="Produce")
    rows = eventually(lambda: [row for row in live.requests(session, produces) if row.error is None])  # it may wait for the leader
    assert (rows[0].client_id, rows[0].topics) == ("a-client", (topic,))
    assert rows[0].principal == "User:ANONYMOUS"
    assert rows[0].total_us > 0
    detail = live.request(session, rows[0].number)
    (partition,) = detail.request["topic_data"][0]["partition_data"]
    assert partition["records"].endswith(" bytes")
    assert detail.request["topic_data"][0]["name"] == topic
    assert detail.response["responses"][0]["partition_responses"][0]["base_offset"] == 0
    assert "secret value" not in str(detail)
    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="nowhere")], allow_auto_topic_creation=False))
    (failed,) = eventually(lambda: live.requests(session, RequestFilter(only_errors=True)))
    assert failed.error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not live.requests(session, RequestFilter(client="twisted-kafka-console"))
    assert not live.requests(session, RequestFilter(since=failed.number))
    assert not live.requests(session, RequestFilter(slower_ms=1e9))
    assert not live.requests(session, RequestFilter(topic="another"))
    with pytest.raises(CommandError, match="not kept any more"):
        live.request(session, 99_999)


def test_a_broker_that_nobody_looks_at_pays_nothing(broker: twisted_kafka.Broker, live: Live, session: Session) -> None:
    running = broker._server._running
    (handler, _), *_ = running.handlers._handlers
    before = handler._handle, handler._bundles, running.sockets.processors[0]._observers
    live.requests(session, RequestFilter())
    assert (handler._handle, handler._bundles, running.sockets.processors[0]._observers) != before
    live.stop()
    assert (handler._handle, handler._bundles, running.sockets.processors[0]._observers) == before


def test_the_capture_ends_when_nobody_has_looked_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, live: Live, session: Session, client: Session
) -> None:
    live.requests(session, RequestFilter())
    assert live._parts.capture.is_on
    monkeypatch.setattr(capture, "LOOKING_NS", -1)
    monkeypatch.setattr(capture, "WINDOW_NS", 0)
    client.metadata([])
    eventually(lambda: not live._parts.capture.is_on)


def test_more_requests_than_a_reader_can_follow_are_counted(
    monkeypatch: pytest.MonkeyPatch, live: Live, session: Session, client: Session
) -> None:
    monkeypatch.setattr(capture, "WINDOW_NS", 10**18)
    live.requests(session, RequestFilter())
    live._parts.capture._window_ns = SystemClock().monotonic_ns()
    live._parts.capture._left = 5
    for _ in range(9):
        client.metadata([])
    eventually(lambda: len(live.requests(session, RequestFilter())) == 5)
    assert live.left_out >= 4


def test_the_consoles_own_requests_take_no_room(
    monkeypatch: pytest.MonkeyPatch, live: Live, session: Session, client: Session
) -> None:
    monkeypatch.setattr(capture, "WINDOW_NS", 3_600_000_000_000)
    monkeypatch.setattr(capture, "MOST_EACH_WINDOW", 15)  # some for members of groups, which send heartbeats meanwhile
    assert live.requests(session, RequestFilter()) == ()
    for _ in range(15):
        session.metadata([])
    client.metadata([])
    rows = eventually(lambda: live.requests(session, RequestFilter(api="Metadata")))
    assert [row.client_id for row in rows] == ["a-client"]


def test_the_consoles_own_requests_are_not_left_out(
    monkeypatch: pytest.MonkeyPatch, live: Live, session: Session, client: Session
) -> None:
    monkeypatch.setattr(capture, "WINDOW_NS", 3_600_000_000_000)
    monkeypatch.setattr(capture, "MOST_EACH_WINDOW", 0)
    client.metadata([])  # it asks for the versions first
    live.requests(session, RequestFilter())
    for _ in range(10):
        session.metadata([])
    client.metadata([])
    assert live.left_out == 1


def test_the_kept_requests_are_bounded(monkeypatch: pytest.MonkeyPatch, live: Live, session: Session, client: Session) -> None:
    monkeypatch.setattr(capture, "MOST_BYTES", 4_000)
    live.requests(session, RequestFilter())
    for _ in range(10):
        client.metadata([])
    rows = eventually(lambda: found if len(found := live.requests(session, RequestFilter())) == 3 else None)
    assert live.request(session, rows[0].number).row == rows[0]
    with pytest.raises(CommandError):
        live.request(session, 1)


def test_no_client_chooses_how_much_a_kept_request_takes(
    live: Live, session: Session, broker: twisted_kafka.Broker, name: Callable[[str], str]
) -> None:
    live.requests(session, RequestFilter())
    client_id = name("c") + "c" * 30_000
    topics = [MetadataRequestTopic(name=name(f"{number}")) for number in range(1_000)]
    with SocketConnection(parse_address(broker.bootstrap_servers), client_id, 20) as connection:
        connection.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 5, 20)
    eventually(lambda: live.requests(session, RequestFilter(client=client_id[:20])))
    kept = live._parts.capture.look()[-1]
    assert len(pickle.dumps(kept)) < kept.size_bytes < 10_000


def test_secrets_are_not_kept(live: Live, session: Session, broker: twisted_kafka.Broker) -> None:
    live.requests(session, RequestFilter())
    with SocketConnection(parse_address(broker.bootstrap_servers), "c", 20) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, 20)
    (row,) = eventually(lambda: live.requests(session, RequestFilter(api="Sasl")))
    assert live.request(session, row.number).request.startswith("not kept: it may have a password")


def test_secrets_in_an_envelope_are_not_kept(live: Live, session: Session, broker: twisted_kafka.Broker) -> None:
    live.requests(session, RequestFilter())
    secret = EnvelopeRequest(request_data=b"a salted password", request_principal=None, client_host_address=b"")
    with SocketConnection(parse_address(broker.bootstrap_servers), "c", 20) as connection, pytest.raises(NotAResponseError):
        connection.ask(secret, 0, 20)
    (row,) = eventually(lambda: live.requests(session, RequestFilter(api="Envelope")))
    assert live.request(session, row.number).request.startswith("not kept: it may have a password")
    assert not any(b"a salted password" in each.frame for each in live._parts.capture.look())


def test_the_clients(live: Live, session: Session, client: Session) -> None:
    client.metadata([])
    (row,) = live.clients(session, Asked("a-client")).items
    assert (row.client_id, row.principal, row.software, row.connections) == ("a-client", "User:ANONYMOUS", "twisted-kafka", 1)
    assert (row.address, row.throttled) == ("127.0.0.1", 0)
    eventually(lambda: live.clients(session, Asked("a-client")).items[0].busy == "")  # it may have the answer before this is noted
    for order in ("connections", "-software", "idle_s"):
        assert live.clients(session, Asked(sort=order)).total >= 1


def test_threads_and_counts(live: Live, session: Session, client: Session) -> None:
    names = [each.name for each in live.threads(session)]
    assert any("data-plane-kafka-network-thread" in each for each in names)
    before = live.counts(session)
    for _ in range(5):
        client.metadata([])
    after = eventually(lambda: found if (found := live.counts(session)).requests > before.requests + 5 else None)
    assert after.per_second(before, "requests") > 0
    assert 0 <= after.handler_idle <= 1
    assert "Metadata" in {each.api for each in after.apis}
    assert after.connections >= 1


def test_the_readers_of_a_topic(live: Live, session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("t"))
    ResetOffsets(name("g"), (topic,), "earliest").do(session)
    assert live.readers(topic) == (name("g"),)


def test_a_user_without_rights_sees_nothing() -> None:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root"}
    with twisted_kafka.Broker(settings) as broker:
        live, alice = broker._server.live(), session_in(broker, "alice")
        for call in (
            lambda: live.requests(alice, RequestFilter()),
            lambda: live.request(alice, 1),
            lambda: live.clients(alice, Asked()),
            lambda: live.threads(alice),
            lambda: live.counts(alice),
            lambda: live.diagnoses(alice),
            lambda: live.in_flight(alice, "g"),
        ):
            with pytest.raises(CommandError) as caught:
                call()
            assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert live.threads(session_in(broker, "root"))
        assert live.access_rules["super.users"] == "User:root"
        assert not live._parts.capture.is_on


@pytest.mark.medium
def test_the_lag_over_time_is_bounded() -> None:
    clock = ManualClock()
    history = LagHistory(clock)

    def detail(number: int, lag: int) -> GroupDetail:
        rows = tuple(PartitionLag("t", each, 0, lag + each, lag + each, None, None, None) for each in range(30))
        return GroupDetail(f"g{number}", "classic", "Stable", "range", (), rows, 30 * lag)

    first = history.note(detail(0, 1))
    assert first.partitions[0] == TopicPartition("t", 29)
    assert len(first.partitions) == 10
    assert len(history.note(detail(0, 5)).points) == 1
    clock.advance_ms(5_000)
    assert [each.lag for each in history.note(detail(0, 5)).points] == [30, 150]
    for number in range(MOST_POINTS + 10):
        clock.advance_ms(5_000)
        found = history.note(detail(0, number))
    assert len(found.points) == MOST_POINTS
    for number in range(1, MOST_GROUPS + 1):
        history.note(detail(number, 0))
    assert len(history.note(detail(0, 7)).points) == 1


def test_a_groups_lag(live: Live, session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("t"))
    write(session, topic, [Written(None, b"v")] * 3)
    join_consumer(session, name("g"), topic)
    ResetOffsets(name("h"), (topic,), "1").do(session)
    assert live.lags.note(group(session, name("h"))).points[0].lag == 2
