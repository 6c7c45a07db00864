"""Aborting a transaction that no coordinator will end."""

from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.transactions import ProducerState, producers
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

_MARKER_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Writes an abort marker to one partition."""

    topic: str
    partition: int
    start_offset: int
    """The transaction's first offset in the partition."""

    def preview(self, session: Session) -> Preview:
        """Return the producer. Raises CommandError."""
        state = self.state(session)
        rows = (
            ("producer id", str(state.producer_id)),
            ("epoch", str(state.epoch)),
            ("last sequence", str(state.last_sequence)),
        )
        return Preview(self.summary(state), ("", "value"), rows, ("read_committed consumers will not see its records",))

    def summary(self, state: ProducerState) -> str:
        """Return in a sentence what will be done."""
        where = TopicPartition(self.topic, self.partition)
        return f"abort the transaction of producer {state.producer_id} from offset {self.start_offset} of {where} on"

    def do(self, session: Session) -> str:
        """Abort it; return a sentence. Raises CommandError."""
        partition = TopicPartition(self.topic, self.partition)
        state = self.state(session)
        marker = WritableTxnMarker(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=[self.partition])],
            coordinator_epoch=max(0, state.coordinator_epoch),
        )

        def step() -> None:
            (leader,) = session.by_leader([partition])
            response = session.ask(WriteTxnMarkersRequest(markers=[marker]), leader, latest=_MARKER_VERSION)
            for result in response.markers:
                for topic in result.topics:
                    for each in topic.partitions:
                        if each.error_code:
                            raise problem(str(partition), each.error_code)

        session.retrying(step)
        return f"aborted the transaction from offset {self.start_offset} of {partition} on"

    def state(self, session: Session) -> ProducerState:
        """Return the transaction's producer. Raises CommandError if no transaction begins there."""
        partition = TopicPartition(self.topic, self.partition)
        for each in producers(session, [partition]):
            if each.start_offset == self.start_offset:
                return each
        raise CommandError(
            f"no transaction of {partition} begins at {self.start_offset}: twisted-kafka transactions find-hanging lists them"
        )
