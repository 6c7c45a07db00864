"""The requests that most are and their responses, as flat forms: one partition, or none, and no error.

The messages of such a request and its response cost as much as an append, a read without records, or a look at the end of a log.
"""

from copy import copy
from typing import Any, cast

from typing_extensions import override

from twisted_kafka.protocol.compiler.flat import FlatForm
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.fetch import FetchRequest
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from twisted_kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.server.dispatch import ReadyResponse, Response


class OneBatch(FlatForm, of=ProduceRequest):
    """Append records to one partition, without a transactional id."""

    acks: int
    timeout_ms: int
    name: str
    topic_id: bytes
    index: int
    records: Buffer


class OneFetch(FlatForm, of=FetchRequest):
    """Read one partition, or those of the session: consumers that follow a session and have nothing to change name none."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: int
    topic: str
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    rack_id: str


class OneQuestion(FlatForm, of=ListOffsetsRequest):
    """Look up an offset of one partition."""

    replica_id: int
    isolation_level: int
    name: str
    partition_index: int
    current_leader_epoch: int
    timestamp: int
    timeout_ms: int


class FlatResponse(ReadyResponse, FlatForm):
    """The base class of responses that are flat forms."""

    __slots__ = ()

    @override
    def throttled(self, throttle_time_ms: int) -> Response:
        """Return the response with a throttle time."""
        throttled: Any = copy(self)
        throttled.throttle_time_ms = throttle_time_ms
        return cast(Response, throttled)

    @override
    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the response as one part."""
        return [self.write(version, prefix)]


class AppendedResponse(FlatResponse, of=ProduceResponse):
    """The response to such a request whose batch was appended."""

    name: str
    index: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    topic_id: bytes = NO_UUID
    throttle_time_ms: int = 0


class FoundResponse(FlatResponse, of=ListOffsetsResponse):
    """The response with the offset that such a request asked for."""

    name: str
    partition_index: int
    timestamp: int
    offset: int
    leader_epoch: int
    throttle_time_ms: int = 0
