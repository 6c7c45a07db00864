"""Topics that requests name by their ids, not by their names (KIP-516)."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

UNKNOWN_NAME: Final = ""
"""The name of a topic whose id is unknown. No topic has it."""


class ITopicOfRequest(Protocol):
    """A topic of a request, by its id."""

    name: str
    topic_id: bytes


def name_topics(topics: Iterable[ITopicOfRequest], topic_name: Callable[[bytes], str | None]) -> None:
    """Set the names of topics that have ids only: UNKNOWN_NAME where ``topic_name`` does not know the id."""
    for topic in topics:
        topic.name = topic_name(topic.topic_id) or UNKNOWN_NAME


def names_of(topics: Iterable[ITopicOfRequest], *, by_id: bool) -> set[str]:
    """Return the names of the topics; with ``by_id`` those whose ids are known."""
    names = {topic.name for topic in topics}
    if by_id:
        names.discard(UNKNOWN_NAME)
    return names


def text_of(topic: ITopicOfRequest) -> str:
    """Return the topic's name for the access log, or its id in hexadecimal digits if it is unknown."""
    return topic.name or topic.topic_id.hex()
