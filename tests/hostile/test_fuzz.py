"""Valid requests with hostile values, several to a connection, cut, half-closed and dropped: each gets its answer or is closed."""

import random
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.broker_under_attack import BrokerUnderAttack, read_answer
from tests.hostile.hostile_messages import CLIENT_IDS, HostileMessages, frame, name_of
from tests.support.clients.served import STOP_TIMEOUT_S
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import parse_response_header
from twisted_kafka.protocol.messages.metadata import MetadataRequest

ANSWER_S = 60.0
"""A request waits for at most 2 s; the rest is for a busy machine."""
QUICK_ROUNDS = 60
SLOW_S = 600.0
UNKNOWN_AS_IN_KAFKA = {*((ApiKey.ALTER_USER_SCRAM_CREDENTIALS, version) for version in range(9)), (ApiKey.OFFSET_COMMIT, 0)}
"""Kafka answers an empty salted password with UNKNOWN_SERVER_ERROR, and a group whose name is no name of a node of ZooKeeper."""
SMALL = ("offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4")

pytestmark = pytest.mark.long


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerUnderAttack]:
    attacked = BrokerUnderAttack(tmp_path / "data", False, *SMALL)
    yield attacked
    attacked.stop()


class Fuzz:
    """Sends rounds of requests and counts what was wrong with the answers."""

    def __init__(self, broker: BrokerUnderAttack, seed: int) -> None:
        self.rng = random.Random(seed)
        self.messages = HostileMessages(self.rng, broker_topic_ids(broker))
        self.apis = broker.apis
        self.port = broker.served.port
        self.sent: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def round(self) -> None:
        """Send up to six requests on each of up to eight connections at once, then read all the answers."""
        opened = [self._connection() for _ in range(self.rng.randrange(1, 9))]
        for connection, awaited in opened:
            with connection:
                self._read(connection, awaited)

    def _connection(self) -> tuple[socket.socket, list[tuple[int, int]]]:
        rng = self.rng
        awaited: list[tuple[int, int]] = []
        data = b""
        for correlation_id in range(rng.randrange(1, 7)):
            key = rng.choice(sorted(self.apis))
            version = rng.randint(*self.apis[key])
            message, body = self._drawn(key, version)
            data += frame(key, version, body, rng.choice(CLIENT_IDS), correlation_id)
            self.sent[name_of(key)] += 1
            if key != ApiKey.PRODUCE or message.acks != 0:  # type: ignore[attr-defined]
                awaited.append((key, version))
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        try:
            cut = rng.randrange(len(data)) if rng.random() < 0.3 else len(data)
            connection.sendall(data[:cut])
            connection.sendall(data[cut:])
            how = rng.random()
            if how < 0.1:
                connection.close()
                return connection, []
            if how < 0.25:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            awaited = []  # closed by the broker because of an earlier request
        return connection, awaited

    def _drawn(self, key: int, version: int) -> tuple[Message, bytes]:
        while True:
            message = self.messages.draw(key, version)
            try:
                return message, message.encode(version)
            except (ValueError, TypeError, OverflowError, struct.error):
                continue  # no version has every combination of values

    def _read(self, connection: socket.socket, awaited: list[tuple[int, int]]) -> None:
        for key, version in awaited:
            try:
                answer = read_answer(connection)
            except TimeoutError:
                self.wrong[f"no answer to {name_of(key)} v{version}"] += 1
                return
            except OSError:
                return  # closed, which a request that cannot be read deserves
            try:
                body = response_class(key).decode(answer, version, parse_response_header(key, version, answer)[1])
            except ValueError as error:
                self.wrong[f"{name_of(key)} v{version}: {error!r}"] += 1
                return
            if (key, version) not in UNKNOWN_AS_IN_KAFKA and ErrorCode.UNKNOWN_SERVER_ERROR in set(error_codes(body)):
                self.wrong[f"UNKNOWN_SERVER_ERROR to {name_of(key)} v{version}"] += 1


def error_codes(answer: Any) -> Iterator[int]:
    for each in getattr(type(answer), "FIELDS", ()):
        value = getattr(answer, each.name)
        if each.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list):
            for element in value:
                yield from error_codes(element)


def broker_topic_ids(broker: BrokerUnderAttack) -> list[bytes]:
    answer = broker.ask(frame(ApiKey.METADATA, 12, MetadataRequest(topics=None).encode(12)))
    metadata: Any = response_class(ApiKey.METADATA).decode(answer, 12, parse_response_header(ApiKey.METADATA, 12, answer)[1])
    return [each.topic_id for each in metadata.topics]


def tracebacks(log: str) -> set[str]:
    """Return the last line of our code in each traceback, and its exception."""
    found = set()
    for text in log.split("Traceback (most recent call last):")[1:]:
        sites = [line.strip() for line in text.splitlines() if "twisted_kafka/" in line]
        errors = re.findall(r"^\t?([A-Za-z_.]+(?:Error|Exception)\b.*)$", text, re.MULTILINE)
        found.add(f"{sites[-1] if sites else '?'}: {errors[0][:150] if errors else '?'}")
    return found


def check(broker: BrokerUnderAttack, fuzz: Fuzz) -> None:
    assert fuzz.wrong == Counter()
    assert tracebacks(broker.log) == set()
    assert broker.is_answering()
    assert set(fuzz.sent) == {name_of(key) for key in broker.apis}, "some API was not asked"


def test_each_request_is_answered_or_its_connection_closed(broker: BrokerUnderAttack) -> None:
    fuzz = Fuzz(broker, seed=1)
    for _ in range(QUICK_ROUNDS):
        fuzz.round()
    check(broker, fuzz)


@pytest.mark.slow
@pytest.mark.timeout(SLOW_S + ANSWER_S + STOP_TIMEOUT_S)
def test_each_request_is_answered_for_ten_minutes(broker: BrokerUnderAttack) -> None:
    seed = int(time.time())
    fuzz = Fuzz(broker, seed)
    print(f"seed {seed}")
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end and not fuzz.wrong:
        fuzz.round()
    check(broker, fuzz)
