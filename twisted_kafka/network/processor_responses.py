"""What a Processor does with responses: sends them, tells observers, lets their channels go on.

First all that are ready are sent, then they are completed: while this thread counts them and makes their lines, the clients
make their next requests.
"""

from collections.abc import Sequence
from typing import Any

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.loop.processor_settings import ProcessorStats
from twisted_kafka.network.processor_loop import ProcessorLoop
from twisted_kafka.network.requests.request import CLOSE_CONNECTION, SEND, START_THROTTLING, Request, ThrottleMark
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.timing.clock import IClock

_log = Logger("twisted_kafka.network.loop.processor")


class ProcessorResponses(ProcessorLoop):
    """The sending half of a Processor. ``fail`` is the Processor's."""

    __slots__ = ("_is_draining", "_observers", "stats")

    def __init__(self, reactor: Any, request_channel: RequestChannel, clock: IClock, observers: Sequence[IRequestObserver]) -> None:
        super().__init__(reactor, request_channel, clock)
        self.stats = ProcessorStats()
        self._observers = tuple(observer.request_completed for observer in observers)
        self._is_draining = False

    def fail(self, channel: KafkaChannel, what: str) -> None:
        """Close a connection in whose step there was an exception, which is the current one."""
        raise NotImplementedError

    def process_new_responses(self) -> None:
        """Send the responses that were completed meanwhile, as one batch, and be done with them then."""
        responses = self._responses
        sent: list[tuple[KafkaChannel, Request]] = []
        now_ns = self.now_ns()
        while responses:
            response = responses.popleft()
            channel = response.channel
            request = channel.in_flight
            try:
                if request is not response or request is None:  # nothing is under way on a channel that is closed
                    self.set_aside(response, now_ns)
                    continue
                request.response_dequeued_ns = now_ns
                if request.response_kind == SEND:
                    if channel.transport.send(request.parts, request.response_bytes):
                        now_ns = request.sent_ns = self.now_ns()
                        sent.append((channel, request))
                else:
                    request.sent_ns = now_ns
                    self._finish(channel, request)
                    if request.response_kind == CLOSE_CONNECTION:
                        channel.close()
            except Exception:  # noqa: BLE001 one failing connection must not end the others
                self.fail(channel, "its response could not be sent")
        for channel, request in sent:
            try:
                self.process_completed_send(channel, request)
            except Exception:  # noqa: BLE001 as above
                self.fail(channel, "it could not go on")

    def set_aside(self, response: Request | ThrottleMark, now_ns: int) -> None:
        """Take a response that is not the answer under way: it begins or ends throttling, or its connection has gone."""
        if isinstance(response, Request):
            response.response_dequeued_ns = now_ns
            self.drop(response)
        elif response.response_kind == START_THROTTLING:
            response.channel.throttle_started()
        else:
            response.channel.throttle_ended()
            if not self._is_draining:
                response.channel.next_request()

    def process_completed_send(self, channel: KafkaChannel, request: Request) -> None:
        """Be done with the request whose response is gone, and go on with the channel's next."""
        channel.last_active_ns = request.sent_ns
        size = request.response_bytes
        stats = self.stats
        stats.responses += 1
        stats.response_bytes += size
        if size > stats.max_response_bytes:
            stats.max_response_bytes = size
        self._finish(channel, request)

    def _finish(self, channel: KafkaChannel, request: Request) -> None:
        channel.response_sent()
        self._complete(request)
        if self._is_draining:
            channel.close()
        else:
            channel.next_request()

    def drop(self, request: Request) -> None:
        """Be done with a request whose response will not be sent."""
        self.stats.dropped_responses += 1
        request.sent_ns = request.response_dequeued_ns
        self._complete(request)

    def _complete(self, request: Request) -> None:
        for tell in self._observers:
            try:
                tell(request)
            except Exception:  # noqa: BLE001 an observer's trouble is not the client's
                _log.failure("An observer of completed requests failed")
