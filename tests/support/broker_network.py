"""Other brokers, as a pumped network: the client is real, the test connects, answers and lets time pass."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from twisted.internet.task import Clock
from twisted.python.failure import Failure

from tests.support.client_harness import Attempt, FakeConnector, versions
from twisted_kafka.client.client_settings import ClientSettings
from twisted_kafka.client.client_settings import Node as Address
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.messages.inter_broker import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

LISTENER = "INSIDE"
REQUEST_TIMEOUT_MS = 30_000


def cluster(leaders: dict[TopicPartition, int], *brokers: int, port: int = 9092) -> UpdateMetadataRequest:
    """What the controller says: these leaders, and these brokers alive."""
    topics: dict[str, UpdateMetadataTopicState] = {}
    for (topic, index), leader in leaders.items():
        state = UpdateMetadataPartitionState(partition_index=index, leader=leader, isr=[leader], replicas=[leader])
        topics.setdefault(topic, UpdateMetadataTopicState(topic_name=topic)).partition_states.append(state)
    alive = [
        UpdateMetadataBroker(id=each, endpoints=[UpdateMetadataEndpoint(port=port, host=f"kafka-{each}", listener=LISTENER)])
        for each in brokers
    ]
    return UpdateMetadataRequest(topic_states=list(topics.values()), live_brokers=alive)


class Received:
    """A request that a broker has received."""

    def __init__(self, attempt: Attempt, request: tuple[Any, ...]) -> None:
        self._attempt = attempt
        self._request = request
        self.node = attempt.node
        key, self.version, _, _, body = request
        self.message: Any = request_class(key).decode(body, self.version)

    def answer(self, response: Message) -> None:
        self._attempt.answer(self._request, response)

    def lose(self) -> None:
        """Lose the connection in place of an answer."""
        self._attempt.lose(ConnectionResetError("reset"))


class BrokerNetwork:
    """The connections of one ``IBrokerClient``."""

    def __init__(self, metadata: MetadataCache, **supported: tuple[int, int]) -> None:
        """``supported`` has the versions that the other brokers support, by API."""
        self.metadata = metadata
        self.supported = supported
        self.clock = Clock()
        self._connector = FakeConnector()
        settings = ClientSettings(client_id="me", request_timeout_ms=REQUEST_TIMEOUT_MS, max_in_flight_requests_per_connection=1)
        self._client = NetworkClient(self.clock, self._connector, settings, lambda: 0.5)
        self._seen = 0

    def send(self, node: Node, request: Message) -> "Future[Any]":
        future: Future[Any] = Future()

        def done(result: Any) -> None:
            if isinstance(result, Failure):
                future.set_exception(result.value)
            else:
                future.set_result(result)

        self._client.send(Address(node.id, node.host, node.port), request).addBoth(done)
        return future

    def disconnect(self, broker_id: int) -> None:
        self._client.disconnect(broker_id)

    def received(self, broker_id: int) -> list[Received]:
        """Let all connections succeed; return the requests that a broker has received since the last time."""
        found = []
        self.clock.advance(1)  # what waits to connect again does so
        for attempt in self._connector.attempts[self._seen :]:
            attempt.succeed()
        self._seen = len(self._connector.attempts)
        for attempt in self._connector.attempts:
            if attempt.node.id != broker_id:
                continue
            for request in attempt.requests():
                if request[0] == ApiKey.API_VERSIONS:
                    attempt.answer(request, versions(**self.supported))
                    found += [Received(attempt, each) for each in attempt.requests()]
                else:
                    found.append(Received(attempt, request))
        return found

    def refuse(self) -> int:
        """Let the attempts to connect fail; return how many there were."""
        self.clock.advance(1)
        attempts = self._connector.attempts[self._seen :]
        self._seen = len(self._connector.attempts)
        for attempt in attempts:
            attempt.fail(ConnectionRefusedError("refused"))
        return len(attempts)


def marked(received: Received, error_of: Callable[[int, TopicPartition], int] = lambda *_: 0) -> WriteTxnMarkersResponse:
    """The response to WriteTxnMarkers, with an error for each producer id and partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error_of(one.producer_id, TopicPartition(topic.name, index))
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in received.message.markers
        ]
    )
