"""What a request did with a share group's records (KIP-932), in Apache Kafka's request log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SHARE_APIS = ("ShareFetch", "ShareAcknowledge")
_TYPES = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


def shares(request: dict[str, Any], response: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the elements of the field `share`, by topic id; None if nothing happened.

    Records whose acknowledgement failed are counted as `refused`.
    """
    found: dict[str, dict[str, int]] = {}
    refused = {(topic, index) for topic, index, part in _parts(response, "responses") if _has_failed(part)}
    for topic, index, part in _parts(request, "topics"):
        for name, count in _acknowledged(part):
            _add(found, topic, "refused" if (topic, index) in refused else name, count)
    for topic, _, part in _parts(response, "responses"):
        for batch in part.get("acquiredRecords") or ():
            count, delivered = batch["lastOffset"] - batch["firstOffset"] + 1, batch["deliveryCount"]
            _add(found, topic, "acquired", count)
            if delivered > 1:
                _add(found, topic, "redelivered", count)
            found[topic]["delivery_count"] = max(delivered, found[topic].get("delivery_count", 0))
    return [{"topic": topic, **counts} for topic, counts in found.items()] or None


def _add(found: dict[str, dict[str, int]], topic: str, name: str, count: int) -> None:
    counts = found.setdefault(topic, {})
    counts[name] = counts.get(name, 0) + count


def _parts(message: dict[str, Any], key: str) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    for topic in message.get(key) or ():
        name = topic.get("topicName") or topic.get("topicId")
        for part in topic.get("partitions") or () if name else ():
            yield name, part.get("partitionIndex"), part


def _has_failed(part: dict[str, Any]) -> bool:
    """Return whether a partition's acknowledgements failed; a ShareAcknowledge has one error code for them, a ShareFetch two."""
    return bool(part.get("acknowledgeErrorCode", part.get("errorCode")))


def _acknowledged(part: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the types of a partition's acknowledgements with numbers of records: a batch has one type, or one for each offset."""
    for batch in part.get("acknowledgementBatches") or ():
        count, types = batch["lastOffset"] - batch["firstOffset"] + 1, batch.get("acknowledgeTypes") or []
        if len(types) == 1:
            yield _TYPES.get(types[0], "gap"), count
        else:
            for each in types:
                yield _TYPES.get(each, "gap"), 1
