"""What ShareFetch and ShareAcknowledge record for the access log: partitions, and counts of records."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted_kafka.network.requests.request_context import RequestContext, ShareCount
from twisted_kafka.share.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW
from twisted_kafka.share.in_flight_records import Acquired
from twisted_kafka.share.share_partition import Result
from twisted_kafka.share.share_partition_manager import Returned

_COUNTS: Final = {
    ACCEPT: ShareCount.ACCEPT,
    RELEASE: ShareCount.RELEASE,
    REJECT: ShareCount.REJECT,
    RENEW: ShareCount.RENEW,
    GAP: ShareCount.GAP,
}


def note_partitions(context: RequestContext, topic: str, partitions: Sequence[Any], size_bytes: int) -> None:
    """Record a topic, its partitions and the first error: that of a partition, or that of its acknowledgements."""
    errors = (each.error_code or getattr(each, "acknowledge_error_code", 0) for each in partitions)
    context.note_topic(topic, tuple(each.partition_index for each in partitions), 0, size_bytes, next(filter(None, errors), 0))


def note_acquired(context: RequestContext, topic: str, acquired: Sequence[Acquired]) -> None:
    """Record how many records of a partition were acquired, and how often they were delivered before."""
    total = again = most = 0
    for first, last, count in acquired:
        records = last - first + 1
        total += records
        if count > 1:
            again += records
        most = max(most, count)
    context.note_share(topic, ShareCount.ACQUIRED, total)
    context.note_share(topic, ShareCount.REDELIVERED, again)
    context.note_share(topic, ShareCount.DELIVERY_COUNT, most)


def note_acknowledged(context: RequestContext, topic: str, counts: Mapping[int, int], result: Result) -> None:
    """Record how many records of a partition were acknowledged, by type, or could not be."""
    if result.error:
        context.note_share(topic, ShareCount.REFUSED, sum(counts.values()))
        return
    for kind, records in counts.items():
        context.note_share(topic, _COUNTS[kind], records)
    context.note_share(topic, ShareCount.OVER_LIMIT, result.over_limit)


def note_returned(context: RequestContext, returned: Returned) -> None:
    """Record how many records a member still had that ends its session."""
    for name, result in returned:
        context.note_share(name.topic, ShareCount.RETURNED, result.returned)
        context.note_share(name.topic, ShareCount.OVER_LIMIT, result.over_limit)
