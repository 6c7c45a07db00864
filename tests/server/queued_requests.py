"""Requests of several connections that a handler finds in the queue, over the families of a registry."""

from collections.abc import Sequence
from typing import Any

from tests.support.network_fakes import FakeTransport, Layer
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.server.dispatch import ApiRegistry
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.timing.clock import ManualClock


class QueuedRequests:
    """A processor and its only handler, whose threads are the caller."""

    def __init__(
        self, registry: ApiRegistry, clock: ManualClock, *, is_together: bool = True, pool: MemoryPool | None = None
    ) -> None:
        self.layer = Layer(clock=clock, pool=pool)
        kafka_apis = KafkaApis(registry, self.layer.channel, clock)
        if is_together:
            self.layer.channel.bundled = kafka_apis.bundled
        self.handler = KafkaRequestHandler(self.layer.channel, kafka_apis.handle, "handler", bundles=kafka_apis)
        self.steps: list[int] = []
        """How many requests the handler has handled in each step."""

    def send_each(self, requests: Sequence[tuple[Message, int]]) -> list[FakeTransport]:
        """Send each, with its version, over a connection of its own, before any of them is handled."""
        sent = [self.layer.connect() for _ in requests]
        for number, ((request, version), (channel, _)) in enumerate(zip(requests, sent, strict=True)):
            self.send(channel, number, request, version)
        while count := self.handler.step(self.layer.parker, 0):
            self.steps.append(count)
        self.layer.reactor.run_asked()
        return [transport for _, transport in sent]

    def send(self, channel: KafkaChannel, number: int, request: Message, version: int) -> None:
        """Send a request with this correlation id."""
        data = encode_request_header(ApiKey(request.KEY), version, number, "test") + request.encode(version)
        channel.dataReceived(len(data).to_bytes(4, "big") + data)

    def topics(self) -> list[Any]:
        """What the requests say in the access log, in the order in which they were completed."""
        return [request.context.topics for request in self.layer.observer.completed]
