"""Errors of commands: one line each, with the remedy."""

from collections.abc import Iterable
from typing import Final

from twisted_kafka.protocol.errors import ErrorCode, KafkaError

_E: Final = ErrorCode
_GRANT: Final = "grant it with twisted-kafka acls create, or log in as another user (--command-config)"
_TIME: Final = "wait for the brokers, or set a longer --timeout"

REMEDIES: Final = {
    _E.TOPIC_AUTHORIZATION_FAILED: _GRANT,
    _E.GROUP_AUTHORIZATION_FAILED: _GRANT,
    _E.CLUSTER_AUTHORIZATION_FAILED: _GRANT,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _GRANT,
    _E.SECURITY_DISABLED: "set authorizer.class.name in the brokers' settings",
    _E.TOPIC_ALREADY_EXISTS: "choose another name, or add --if-not-exists",
    _E.INVALID_REPLICATION_FACTOR: "set --replication-factor to at most the number of brokers",
    _E.NON_EMPTY_GROUP: "stop its members first",
    _E.GROUP_SUBSCRIBED_TO_TOPIC: "stop its members first",
    _E.UNKNOWN_MEMBER_ID: "stop the group's members first",
    _E.GROUP_ID_NOT_FOUND: "list the groups with twisted-kafka groups list",
    _E.TRANSACTIONAL_ID_NOT_FOUND: "list them with twisted-kafka transactions list",
    _E.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true in the brokers' settings",
    _E.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes with twisted-kafka configs alter",
    _E.RECORD_LIST_TOO_LARGE: "raise the topic's max.message.bytes with twisted-kafka configs alter",
    _E.INVALID_RECORD: "a compacted topic needs a key in each record (--key, --key-separator)",
    _E.NOT_ENOUGH_REPLICAS: "start the brokers with the other replicas, or lower min.insync.replicas",
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "start the brokers with the other replicas, or lower min.insync.replicas",
    _E.COORDINATOR_NOT_AVAILABLE: _TIME,
    _E.LEADER_NOT_AVAILABLE: "start the brokers with its replicas",
    _E.REQUEST_TIMED_OUT: _TIME,
    _E.THROTTLING_QUOTA_EXCEEDED: "wait, or raise the quota controller_mutation_rate with twisted-kafka quotas alter",
    _E.UNACCEPTABLE_CREDENTIAL: "set --iterations from 4096 to 16384, and a password",
    _E.LOG_DIR_NOT_FOUND: "list the directories with twisted-kafka logs list",
}
"""What to do about an error, where its text does not say so."""

_LASTING: Final = {_E.ELECTION_NOT_NEEDED, _E.PREFERRED_LEADER_NOT_AVAILABLE, _E.ELIGIBLE_LEADERS_NOT_AVAILABLE}
"""Errors that a client may repeat, but that a repetition by a tool does not end."""


class CommandError(Exception):
    """The command cannot do its work. The text is one line with the remedy."""

    code: ErrorCode | None = None
    """The error code in a broker's response, if there is one that this program knows."""


class TryAgainError(CommandError):
    """The same, for an error that may be gone soon."""


class NotNowError(CommandError):
    """The same, for an error that has lasted for as long as one operation waits. A later operation may succeed."""


def problem(subject: str, code: int, message: str | None = None) -> CommandError:
    """Return the exception for an error code in a response; a TryAgainError if a retry may help."""
    kind = KafkaError.by_code.get(code, KafkaError)
    text = (message or kind.general_message or f"error {code}").strip().rstrip(".")
    remedy = REMEDIES.get(ErrorCode(code)) if code in KafkaError.by_code else None
    line = " ".join(f"{subject}: {text}{f'; {remedy}' if remedy else ''}".split())
    error = TryAgainError(line) if kind.retriable and code not in _LASTING else CommandError(line)
    error.code = ErrorCode(code) if code in KafkaError.by_code else None
    return error


def unknown(what: str, name: str, known: Iterable[str], remedy: str) -> CommandError:
    """Return the exception for a name that does not exist, with the most similar one, or else the remedy."""
    from difflib import get_close_matches

    similar = get_close_matches(name, list(known), 1)
    return CommandError(f"there is no {what} {name!r}: {f'did you mean {similar[0]!r}?' if similar else remedy}")
