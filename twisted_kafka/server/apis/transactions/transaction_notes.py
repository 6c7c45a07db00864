"""The access log's notes about the end of a transaction."""

from collections.abc import Iterator

from twisted_kafka.network.requests.request_context import RequestContext, TopicNote, TransactionNote
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionEnd


def end_note(end: TransactionEnd) -> TransactionNote:
    """Return the note about a transaction that ended."""
    return TransactionNote(end.transaction.transactional_id, end.outcome, end.transaction.lasted_ms)


def topic_notes(end: TransactionEnd) -> Iterator[TopicNote]:
    """Yield the notes about the topics that the transaction wrote to."""
    for topic, partitions in end.transaction.partitions_by_topic().items():
        yield topic, tuple(partitions), 0, 0, 0


def note_topics(context: RequestContext, end: TransactionEnd | None, error: int) -> None:
    """Note the topics that the transaction wrote to, with the error that ending it was answered with."""
    if end is not None:
        for topic, partitions, *_ in topic_notes(end):
            context.note_topic(topic, partitions, 0, 0, error)
