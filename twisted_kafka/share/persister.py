"""The persister of share groups (KIP-932): where the state of a group's share partitions outlives this broker."""

from concurrent.futures import Future
from typing import Protocol

from twisted_kafka.protocol.messages.share.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)


class IPersister(Protocol):
    """Reads and writes the state of share partitions. Methods may be called on any thread, and do not wait for replicas.

    Call them without locks: a write to this broker's own share coordinator may complete other requests meanwhile.

    A request may name any number of partitions of one group; the response has a result for each, with an error code. The
    persister finds the share coordinators, and retries while they move. A future never fails.
    """

    def initialize_state(self, request: InitializeShareGroupStateRequest) -> "Future[InitializeShareGroupStateResponse]":
        """Set the state epoch and start offset of new share partitions."""

    def read_state(self, request: ReadShareGroupStateRequest) -> "Future[ReadShareGroupStateResponse]":
        """Read the whole state as the partitions' new leader: writes with an older leader epoch are refused from now on."""

    def write_state(self, request: WriteShareGroupStateRequest) -> "Future[WriteShareGroupStateResponse]":
        """Write changes of the records' states. An old epoch gets FENCED_STATE_EPOCH or FENCED_LEADER_EPOCH."""

    def delete_state(self, request: DeleteShareGroupStateRequest) -> "Future[DeleteShareGroupStateResponse]":
        """Remove the state. Deleting what does not exist succeeds."""

    def read_state_summary(self, request: ReadShareGroupStateSummaryRequest) -> "Future[ReadShareGroupStateSummaryResponse]":
        """Read start offsets and epochs without the records' states."""
