"""Transactions by the Java client, 3.9 and 4.x, and franz-go: every outcome, also with kills on both sides.

All of it at level 0 and at level 2 of ``transaction.version``, with which newer clients have an epoch for each transaction.
"""

import random
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.transactors import EPOCHS, FRANZ_GO, KINDS, FailedError, Transactors, command_of
from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import COMPACTING, ensure_ends_well, make_topic, producer_of, read
from tests.support.eventually import eventually, join
from tests.support.features import finalize

END_S = 120
TIMEOUT_MS = 60_000
SHORT_TIMEOUT_MS = 1_500
FENCED = re.compile("ProducerFenced|InvalidProducerEpoch|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH")
TOO_LATE = re.compile(f"{FENCED.pattern}|InvalidTxnState|INVALID_TXN_STATE")
"""Who has an epoch for each transaction is told that it was aborted, and may go on."""
NOT_IN_GROUP = re.compile("CommitFailed|UNKNOWN_MEMBER_ID|aborted|No current assignment")
"""The last is the Java client's, if it loses its partitions between a poll and the look at its position in them."""
STARTS_AGAIN = frozenset({"kafka-clients 3.9.2"})
"""Fixed in 4.0. The access log shows ListOffsets for a partition whose offset was committed, and no OffsetFetch."""
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    *COMPACTING,
)

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]

Start = Callable[[ServedBroker], Transactors]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(kind: str, built: Path) -> Iterator[Start]:
    """Start programs of one kind; each is killed at the end."""
    command = command_of(kind, built)
    started: list[Transactors] = []

    def start_one(broker: ServedBroker) -> Transactors:
        started.append(Transactors([*command, broker.bootstrap]))
        return started[-1]

    yield start_one
    for each in started:
        each.kill()


@pytest.fixture(scope="module", params=[0, 2], ids=["level 0", "level 2"])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, level: int) -> Iterator[ServedBroker]:
    served = ServedBroker(tmp_path_factory.mktemp("transactional") / "data", *SETTINGS)
    served.start()
    finalize(served.port, level)
    yield served
    ensure_ends_well(served)


@pytest.fixture
def mortal(tmp_path: Path, level: int) -> Iterator[ServedBroker]:
    """A broker that the test may kill; it is well at the end."""
    served = ServedBroker(tmp_path / "data", *SETTINGS)
    served.start()
    finalize(served.port, level)
    yield served
    ensure_ends_well(served)


@pytest.fixture
def topic(kind: str, request: pytest.FixtureRequest, broker: ServedBroker) -> str:
    return make_topic(broker, re.sub(r"\W+", "-", request.node.name))


def values(client: Transactors, topic: str, isolation: str = "read_committed") -> list[str]:
    """What the program itself reads."""
    found = client.do("read", topic, isolation)
    return found.split(",") if found else []


def outcome(client: Transactors, *words: object) -> str:
    """What a command returns, or the error."""
    try:
        return client.do(*words)
    except FailedError as error:
        return str(error)


def write(client: Transactors, name: str, topic: str, partition: int, value: str) -> None:
    """Send a value, and wait until the broker has it."""
    client.do("send", name, topic, partition, value)
    client.do("flush", name)


def test_commits_and_aborts(start: Start, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    client.do("open", "a", topic, TIMEOUT_MS)
    for number in range(6):
        client.do("begin", "a")
        for partition in range(2):
            client.do("send", "a", topic, partition, number)
        client.do("abort" if number % 2 else "commit", "a")
    client.do("begin", "a")
    client.do("commit", "a")  # nothing
    assert values(client, topic) == read(broker, topic) == ["0", "2", "4"] * 2
    client.do("begin", "a")
    write(client, "a", topic, 0, "open")
    assert values(client, topic) == ["0", "2", "4"] * 2
    assert "open" in values(client, topic, "read_uncommitted")
    client.do("commit", "a")
    assert values(client, topic) == read(broker, topic) == ["0", "2", "4", "open", "0", "2", "4"]


def test_who_has_an_epoch_for_each_transaction(start: Start, kind: str, level: int, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    client.do("open", "a", topic, TIMEOUT_MS)
    for number in range(4):
        client.do("begin", "a")
        write(client, "a", topic, 0, f"{number}")
        client.do("abort" if number == 2 else "commit", "a")
    assert producer_of(broker, topic).epoch == (4 if level == 2 and kind in EPOCHS else 0)
    assert read(broker, topic) == ["0", "1", "3"]


def test_the_level_changes_while_clients_work(start: Start, kind: str, level: int, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    try:
        expected = []
        for number in range(8):
            if number % 2:
                finalize(broker.port, 0 if number % 4 == 1 else 2)
            if number % 3 == 0:
                client.kill()
                client = start(broker)
                client.do("open", "a", topic, TIMEOUT_MS)
            client.do("begin", "a")
            write(client, "a", topic, 0, f"{number}")
            client.do("commit", "a")
            expected.append(f"{number}")
    finally:
        finalize(broker.port, level)
    assert values(client, topic) == read(broker, topic) == expected


def test_a_second_producer_fences_the_first(start: Start, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    client.do("open", "first", topic, TIMEOUT_MS)
    client.do("begin", "first")
    write(client, "first", topic, 0, "lost")
    client.do("open", "second", topic, TIMEOUT_MS)
    with pytest.raises(FailedError, match=FENCED):
        client.do("commit", "first")
    client.do("begin", "second")
    client.do("send", "second", topic, 0, "kept")
    client.do("commit", "second")
    assert values(client, topic) == read(broker, topic) == ["kept"]


def test_a_fenced_producer_cannot_write_either(start: Start, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    for name in ("first", "second"):
        client.do("open", name, topic, TIMEOUT_MS)
        client.do("begin", name)
        write(client, name, topic, 0, name)
    with pytest.raises(FailedError, match=FENCED):
        write(client, "first", topic, 0, "more")
    client.do("commit", "second")
    assert values(client, topic) == read(broker, topic) == ["second"]


def test_an_administrator_fences_a_producer(start: Start, kind: str, broker: ServedBroker, topic: str) -> None:
    if kind == FRANZ_GO:
        pytest.skip("it has no such function")
    client = start(broker)
    client.do("open", "a", topic, TIMEOUT_MS)
    client.do("begin", "a")
    write(client, "a", topic, 0, "lost")
    client.do("fence", topic)
    with pytest.raises(FailedError, match=FENCED):
        client.do("commit", "a")
    assert read(broker, topic) == []


def test_the_coordinator_aborts_what_takes_too_long(start: Start, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    client.do("open", "late", topic, SHORT_TIMEOUT_MS)
    client.do("open", "other", f"{topic}-other", TIMEOUT_MS)
    client.do("begin", "late")
    write(client, "late", topic, 0, "late")
    client.do("begin", "other")
    client.do("send", "other", topic, 0, "other")
    client.do("commit", "other")  # not to be seen until the transaction before it is aborted
    eventually(lambda: read(broker, topic) == ["other"], pause_s=0.5)
    with pytest.raises(FailedError, match=TOO_LATE):
        client.do("commit", "late")
    assert values(client, topic) == ["other"]
    client.do("open", "late", topic, SHORT_TIMEOUT_MS)
    client.do("begin", "late")
    client.do("send", "late", topic, 0, "again")
    client.do("commit", "late")
    assert values(client, topic) == ["other", "again"]


def test_a_killed_client_is_followed_by_another(start: Start, broker: ServedBroker, topic: str) -> None:
    for number in range(3):
        client = start(broker)
        client.do("open", "a", topic, TIMEOUT_MS)  # aborts what the one before left
        client.do("begin", "a")
        for partition in range(2):
            client.do("send", "a", topic, partition, f"kept {number}")
        client.do("commit", "a")
        client.do("begin", "a")
        write(client, "a", topic, number % 2, f"lost {number}")
        client.kill()
    client = start(broker)
    client.do("open", "a", topic, TIMEOUT_MS)
    assert values(client, topic) == read(broker, topic) == [f"kept {number}" for number in range(3)] * 2


def test_what_a_killed_client_left_is_aborted_in_time(start: Start, broker: ServedBroker, topic: str) -> None:
    client = start(broker)
    client.do("open", "a", topic, SHORT_TIMEOUT_MS)
    client.do("begin", "a")
    write(client, "a", topic, 0, "lost")
    client.kill()
    client = start(broker)
    client.do("open", "b", f"{topic}-other", TIMEOUT_MS)
    client.do("begin", "b")
    client.do("send", "b", topic, 0, "kept")
    client.do("commit", "b")
    eventually(lambda: values(client, topic) == ["kept"], pause_s=0.5)


def test_the_broker_is_killed_while_a_transaction_is_open_or_ends(start: Start, mortal: ServedBroker) -> None:
    topic = make_topic(mortal, "killed")
    client = start(mortal)
    client.do("open", "a", "a", TIMEOUT_MS)
    client.do("open", "left", "left", SHORT_TIMEOUT_MS)
    client.do("begin", "left")
    write(client, "left", topic, 1, "left")
    chance = random.Random(1)
    expected = []
    for number in range(8):
        client.do("begin", "a")
        for partition in range(2):
            client.do("send", "a", topic, partition, number)
        if number % 2:
            client.do("flush", "a")
        outcome = "abort" if number % 4 == 3 else "commit"
        if number % 3 == 2:  # before
            mortal.kill()
            mortal.start()
        client.tell(outcome, "a")
        if number % 3 == 1:  # meanwhile
            threading.Event().wait(chance.uniform(0, 0.02))
            mortal.kill()
            mortal.start()
        client.answer()
        if outcome == "commit":
            expected.append(f"{number}")
    eventually(lambda: read(mortal, topic) == expected * 2, lambda: read(mortal, topic), pause_s=0.5)
    assert values(client, topic) == expected * 2
    with pytest.raises(FailedError, match=TOO_LATE):
        client.do("commit", "left")


def fill(client: Transactors, topic: str, count: int, partitions: int = 2) -> list[str]:
    """Write numbers and return them as they will be transformed, in order of partitions."""
    client.do("open", "filling", f"filling-{topic}", TIMEOUT_MS)
    client.do("begin", "filling")
    for number in range(count):
        client.do("send", "filling", topic, number % partitions, number)
    client.do("commit", "filling")
    return [f"t{number}" for partition in range(partitions) for number in range(partition, count, partitions)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consume_transform_produce(start: Start, kind: str, broker: ServedBroker, topic: str, protocol: str) -> None:
    client = start(broker)
    expected = fill(client, topic, 100)
    target = make_topic(broker, f"{topic}-target")
    client.do("join", "a", f"{topic}-transform", TIMEOUT_MS, f"{topic}-group", topic, protocol)
    done = attempts = 0
    while done < 100:
        attempts += 1
        outcome = "abort" if attempts % 3 == 2 else "commit"
        taken = int(client.do("transform", "a", target, outcome))
        done += taken if outcome == "commit" else 0
    assert done == 100
    assert values(client, target) == read(broker, target) == expected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_successor_waits_for_offsets_of_an_open_transaction(
    start: Start, kind: str, broker: ServedBroker, topic: str, protocol: str
) -> None:
    """A member that is thought dead has sent its offsets, and commits them after all: its successor begins behind them."""
    if kind == FRANZ_GO:
        pytest.skip("its session sends offsets only when a transaction ends")
    sleeper, other = start(broker), start(broker)
    expected = fill(sleeper, topic, 10, 1)
    target = make_topic(broker, f"{topic}-target")
    group = f"{topic}-group"
    sleeper.do("join", "a", f"{topic}-a", TIMEOUT_MS, group, topic, protocol)
    eventually(lambda: sleeper.do("transform", "a", target, "hold") == "10")
    sleeper.signal(signal.SIGSTOP)
    other.do("join", "b", f"{topic}-b", TIMEOUT_MS, group, topic, protocol)
    taken = []

    def has_taken_over() -> bool:
        taken.append(other.do("transform", "b", target, "commit"))
        return sole_member(broker, group).startswith("b")

    eventually(has_taken_over)
    taken += [other.do("transform", "b", target, "commit") for _ in range(2)]
    sleeper.signal(signal.SIGCONT)
    sleeper.do("commit", "a")
    taken += [other.do("transform", "b", target, "commit") for _ in range(2)]
    assert set(taken) == {"0"}
    assert values(other, target) == expected


def sole_member(broker: ServedBroker, group: str) -> str:
    """The client id of the only member that has partitions; empty unless there is one member and it has some."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    members = admin.describe_consumer_groups([group])[group].result(END_S).members
    return members[0].client_id if len(members) == 1 and members[0].assignment.topic_partitions else ""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_replaced_commits_nothing(
    start: Start, kind: str, broker: ServedBroker, topic: str, protocol: str
) -> None:
    """It sleeps through the end of its session; what it has taken goes to another member."""
    sleeper = start(broker)
    expected = fill(sleeper, topic, 10, 1)
    target = make_topic(broker, f"{topic}-target")
    group = f"{topic}-group"
    sleeper.do("join", "a", f"{topic}-a", TIMEOUT_MS, group, topic, protocol)
    eventually(lambda: sleeper.do("transform", "a", target, "abort") == "10")
    sleeper.signal(signal.SIGSTOP)
    other = start(broker)
    other.do("join", "b", f"{topic}-b", TIMEOUT_MS, group, topic, protocol)
    eventually(lambda: other.do("transform", "b", target, "commit") == "10")
    sleeper.signal(signal.SIGCONT)
    # It finds out by an error, or by its first poll.
    outcomes = [outcome(sleeper, "transform", "a", target, "commit") for _ in range(3)]
    assert [each for each in outcomes if each != "0" and not NOT_IN_GROUP.search(each)] == []
    assert read(broker, target) == expected


class Transforming:
    """A program that transforms in a thread until it is told to end; now and then it is killed, and another begins."""

    def __init__(self, start: Callable[[], Transactors], name: str, protocol: str) -> None:
        self._start = start
        self._name = name
        self._protocol = protocol
        self._random = random.Random(name)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.kills = 0
        self.failures: list[str] = []

    def _run(self) -> None:
        while not self.ending.is_set():
            client = self._start()
            lives = self._random.randint(4, 12)
            try:
                client.do("join", "a", self._name, TIMEOUT_MS, "transformers", "source", self._protocol)
                while not self.ending.is_set() and (lives := lives - 1):
                    client.do("transform", "a", "target", self._random.choice(["commit", "commit", "commit", "abort"]))
                client.tell("transform", "a", "target", "commit")
                self.ending.wait(self._random.uniform(0, 0.05))
                self.kills += 1
            except FailedError as error:
                self.failures.append(str(error))
            finally:
                client.kill()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_record_is_transformed_once_whoever_dies(start: Start, kind: str, mortal: ServedBroker, protocol: str) -> None:
    if kind in STARTS_AGAIN and protocol == "consumer":
        pytest.skip("a partition that it is assigned while it asks for offsets is read from the beginning (KAFKA-17674)")
    source, target = make_topic(mortal, "source", 4), make_topic(mortal, "target", 4)
    client = start(mortal)
    expected = fill(client, source, 800, 4)
    transforming = [Transforming(lambda: start(mortal), f"transformer-{number}", protocol) for number in range(2)]
    for each in transforming:
        each.thread.start()
    broker_kills = 0

    def is_done() -> bool:
        nonlocal broker_kills
        found = len(read(mortal, target))
        if found > 150 * (broker_kills + 1) and broker_kills < 3:
            mortal.kill()
            mortal.start()
            broker_kills += 1
        return found >= len(expected)

    try:
        eventually(is_done, lambda: [each.failures for each in transforming], END_S, 0.5)
    finally:
        for each in transforming:
            each.ending.set()
        join([each.thread for each in transforming], END_S)
    assert read(mortal, target) == expected
    assert values(client, target) == expected
    print(f"{[each.kills for each in transforming]} kills of clients, {broker_kills} of the broker")
    print([each.failures for each in transforming])
    assert broker_kills == 3
    assert sum(each.kills for each in transforming) > 2
