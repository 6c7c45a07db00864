"""Prepares a console for its first look: compiles the templates, and the messages that pages send.

Both are compiled on first use, which would make the first look at a page wait for a tenth of a second. Here it happens after the
start, in small pieces with rests between them, so that clients of the broker notice nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.console.cluster.groups import BY_NAME as OFFSETS_BY_NAME
from twisted_kafka.console.cluster.reader import BY_NAME as FETCH_BY_NAME
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message, decoder_of, encoder_of
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest
from twisted_kafka.protocol.messages.administration.log_dirs import DescribeLogDirsRequest
from twisted_kafka.protocol.messages.administration.partitions import ListPartitionReassignmentsRequest
from twisted_kafka.protocol.messages.cluster import DescribeClusterRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest
from twisted_kafka.protocol.messages.coordinators.groups import DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetFetchRequest
from twisted_kafka.protocol.messages.coordinators.transaction_admin import ListTransactionsRequest
from twisted_kafka.protocol.messages.fetch import FetchRequest
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest
from twisted_kafka.system.threads import thread_cpu_ns

DELAY_S: Final = 1.0
"""The time from the start to the first piece."""
RESTS: Final = 9
"""The rest after a piece, in times of the piece: the work takes a tenth of a processor's time for some seconds."""

_ANY: Final = 2**15
_MESSAGES_OF_PAGES: Final[tuple[tuple[type[Message], int], ...]] = (
    (MetadataRequest, _ANY),
    (DescribeClusterRequest, _ANY),
    (ListPartitionReassignmentsRequest, _ANY),
    (DescribeLogDirsRequest, _ANY),
    (ListGroupsRequest, _ANY),
    (ListTransactionsRequest, _ANY),
    (ListOffsetsRequest, _ANY),
    (DescribeConfigsRequest, _ANY),
    (FindCoordinatorRequest, _ANY),
    (OffsetFetchRequest, OFFSETS_BY_NAME),
    (DescribeGroupsRequest, _ANY),
    (ConsumerGroupDescribeRequest, _ANY),
    (ShareGroupDescribeRequest, _ANY),
    (StreamsGroupDescribeRequest, _ANY),
    (FetchRequest, FETCH_BY_NAME),
)
"""The messages that the first look at a page compiles, with the latest version that it asks for."""

_NS: Final = 1_000_000_000

_log = Logger()


def compiled_messages(served: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """Compile the messages that pages send to a broker with these versions, an API at each step; yield its name."""
    for request, latest in _MESSAGES_OF_PAGES:
        if request.KEY in served:
            version = min(request.VERSIONS[1], served[request.KEY][1], latest)
            for message in (request, response_class(request.KEY)):
                encoder_of(message, version)
                decoder_of(message, version)
            yield ApiKey(request.KEY).title


class WarmUp:
    """Does pieces of work until they are over, or until ``stop``. Its methods are called on the reactor's thread."""

    def __init__(self, reactor: Any, submit: Callable[[Callable[[], Any]], "Future[Any]"], pieces: Iterator[object]) -> None:
        """``submit`` runs a call on another thread. Each item of ``pieces`` is a piece that is done."""
        self._reactor = reactor
        self._submit = submit
        self._pieces = pieces
        self._call: Any = None

    def start(self) -> None:
        """Begin some time from now."""
        self._call = self._reactor.callLater(DELAY_S, self._begin)

    def stop(self) -> None:
        """Do no further piece."""
        call, self._call = self._call, None
        if call is not None and call.active():
            call.cancel()

    def _begin(self) -> None:
        self._submit(self._piece).add_done_callback(lambda done: self._reactor.callFromThread(self._done, done))

    def _piece(self) -> int | None:
        """Do one piece; return its cost in nanoseconds, or None at the end."""
        began_ns = thread_cpu_ns()
        for _ in self._pieces:
            return thread_cpu_ns() - began_ns
        return None

    def _done(self, future: "Future[int | None]") -> None:
        if self._call is None:  # stopped meanwhile
            return
        try:
            cost_ns = future.result()
        except Exception:  # noqa: BLE001 the page that needs it fails, too, and says why
            _log.failure("The console could not be prepared for its first look")
            return
        if cost_ns is not None:
            self._call = self._reactor.callLater(RESTS * cost_ns / _NS, self._begin)
