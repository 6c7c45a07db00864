"""The seam where the testing kit sees requests before they are handled, and responses before they are sent."""

from collections.abc import Callable
from typing import Protocol

from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import IRequestHandling

MakeApis = Callable[[RequestChannel], KafkaApis]
"""Makes what handles requests, and answers them through this channel."""


class IRequestInterceptor(Protocol):
    """Stands between the request handlers and KafkaApis. A broker without one pays nothing for it."""

    own_client_id: str
    """The client id of requests that are no client's. It is secret: an authorizer allows them everything."""

    def intercept(
        self, make_apis: MakeApis, channel: RequestChannel, topic_name: Callable[[bytes], str | None]
    ) -> IRequestHandling:
        """Return the object that handlers call. Called once for each plane, while the broker starts.

        ``topic_name`` returns the name of the topic with this id, or None.
        """
