"""What brokers need before they are compared: the same settings, no data, and coordinators that answer."""

from collections.abc import Callable
from typing import Any, Final

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS
from twisted_kafka.tools.compare.talk import LOCAL, StoppedError, Talk
from twisted_kafka.tools.compare.waits import now_s, pause

LARGEST_GROUP: Final = 9
SETTINGS: Final[dict[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "group.min.session.timeout.ms": 6000,
    "log.retention.check.interval.ms": 3_600_000,
    "log.initial.task.delay.ms": 3_600_000,  # or retention deletes the scenarios' records, which have old timestamps, in between
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.partition.verification.enable": "false",
    "password.encoder.secret": "not told to anybody",
    "group.max.size": LARGEST_GROUP,
    "group.consumer.max.size": LARGEST_GROUP,
}
"""The settings of both brokers. With others, answers differ for that reason alone."""

WARM_TIMEOUT_S: Final = 30
_PAUSE_S: Final = 0.1

Versions = dict[int, tuple[int, int]]
"""The first and last version of each API, by key."""


def settings_text() -> str:
    """Return the settings as lines of a server.properties."""
    return "".join(f"{key}={value}\n" for key, value in SETTINGS.items())


def told_versions(port: int, *, host: str = LOCAL) -> Versions:
    """Return the versions that a broker advertises. Raises OSError and StoppedError."""
    request = ApiVersionsRequest(client_software_name="compare", client_software_version="1")
    answer = _asked(port, host, lambda talk: talk.ask(request, 3))
    if answer is None:
        raise StoppedError(f"{host}:{port} closed the connection at ApiVersions v3")
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def present_topics(port: int, *, host: str = LOCAL) -> list[str]:
    """Return the topics of a broker but for internal ones. Raises OSError and StoppedError."""
    answer = _asked(port, host, lambda talk: talk.ask(MetadataRequest(topics=None), 4))
    if answer is None:
        raise StoppedError(f"{host}:{port} closed the connection at Metadata v4: it may require a login")
    return sorted(each.name for each in answer.topics if each.name not in INTERNAL_TOPICS)


def warm(port: int, *, host: str = LOCAL) -> list[str]:
    """Ask until the coordinators answer: a first question creates their topics, and brokers say "later" to it.

    Returns which coordinators do not answer within ``WARM_TIMEOUT_S``.
    """
    return _asked(port, host, _warm)  # type: ignore[no-any-return]


def _warm(talk: Talk) -> list[str]:
    questions: tuple[tuple[str, Message, int], ...] = (
        ("the group coordinator", FindCoordinatorRequest(key="warm"), 3),
        ("the transaction coordinator", FindCoordinatorRequest(key="warm", key_type=1), 3),
        ("the source of producer ids", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1),
    )
    return [name for name, request, version in questions if not _is_ready(talk, request, version)]


def _is_ready(talk: Talk, request: Message, version: int) -> bool:
    deadline = now_s() + WARM_TIMEOUT_S
    while now_s() < deadline:
        answer = talk.ask(request, version)
        if answer is None:
            return False
        if not answer.error_code:
            return True
        pause(_PAUSE_S)
    return False


def _asked(port: int, host: str, ask: Callable[[Talk], Any]) -> Any:
    talk = Talk(port, "compare", host=host)
    try:
        return ask(talk)
    finally:
        talk.close()
