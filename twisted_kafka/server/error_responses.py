"""Builds the error response to a request of any API (Kafka: ``AbstractRequest.getErrorResponse``, one method per class).

A response with a top-level error code gets the error there. Otherwise, or also if Kafka does so, each requested item gets the
error: ``_MIRRORS`` declares these items and the fields to copy from them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.errors import KafkaError

_LAST = 0x7FFF


class _Mirror(NamedTuple):
    """The response's list ``answered`` has one item for each item of the request's list ``asked``.

    ``copied`` are the fields to copy, as ``response_field=request_field`` if the names differ; ``.`` is the item itself.
    The error is set on the items, or, with ``inner``, on the items of the list inside each.
    """

    answered: str
    asked: str
    copied: str = ""
    inner: "_Mirror | None" = None
    since: int = 0
    until: int = _LAST


_PARTITIONS = _Mirror("partitions", "partitions", "partition_index")
_INDEXES = _Mirror("partitions", "partition_indexes", "partition_index=.")
_CONFIG_RESOURCES = _Mirror("responses", "resources", "resource_type resource_name")

_SHARE_STATE_APIS = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)

_MIRRORS: dict[int, tuple[_Mirror, ...]] = {
    ApiKey.PRODUCE: (
        _Mirror("responses", "topic_data", "name topic_id", _Mirror("partition_responses", "partition_data", "index")),
    ),
    ApiKey.FETCH: (
        _Mirror(
            "responses", "topics", "topic topic_id", _Mirror("partitions", "partitions", "partition_index=partition"), until=12
        ),
    ),
    ApiKey.LIST_OFFSETS: (_Mirror("topics", "topics", "name", _PARTITIONS),),
    ApiKey.METADATA: (_Mirror("topics", "topics", "name topic_id"),),
    ApiKey.OFFSET_COMMIT: (_Mirror("topics", "topics", "name topic_id", _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        _Mirror("topics", "topics", "name", _INDEXES, until=1),
        _Mirror("groups", "groups", "group_id", since=8),
    ),
    ApiKey.FIND_COORDINATOR: (_Mirror("coordinators", "coordinator_keys", "key=.", since=4),),
    ApiKey.DESCRIBE_GROUPS: (_Mirror("groups", "groups", "group_id=."),),
    ApiKey.CREATE_TOPICS: (_Mirror("topics", "topics", "name"),),
    ApiKey.DELETE_TOPICS: (
        _Mirror("responses", "topic_names", "name=.", until=5),
        _Mirror("responses", "topics", "name topic_id", since=6),
    ),
    ApiKey.DELETE_RECORDS: (_Mirror("topics", "topics", "name", _PARTITIONS),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_Mirror("topics", "topics", "topic", _Mirror("partitions", "partitions", "partition")),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _Mirror(
            "results_by_topic_v3_and_below",
            "v3_and_below_topics",
            "name",
            _Mirror("results_by_partition", "partitions", "partition_index=."),
            until=3,
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (_Mirror("markers", "markers", "producer_id", _Mirror("topics", "topics", "name", _INDEXES)),),
    ApiKey.TXN_OFFSET_COMMIT: (_Mirror("topics", "topics", "name topic_id", _PARTITIONS),),
    ApiKey.CREATE_ACLS: (_Mirror("results", "creations"),),
    ApiKey.DELETE_ACLS: (_Mirror("filter_results", "filters"),),
    ApiKey.DESCRIBE_CONFIGS: (_Mirror("results", "resources", "resource_type resource_name"),),
    ApiKey.ALTER_CONFIGS: (_CONFIG_RESOURCES,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_CONFIG_RESOURCES,),
    ApiKey.CREATE_PARTITIONS: (_Mirror("results", "topics", "name"),),
    ApiKey.DELETE_GROUPS: (_Mirror("results", "groups_names", "group_id=."),),
    ApiKey.ELECT_LEADERS: (
        _Mirror(
            "replica_election_results", "topic_partitions", "topic", _Mirror("partition_result", "partitions", "partition_id=.")
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_Mirror("responses", "topics", "name", _PARTITIONS),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_Mirror("entries", "entries"),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_Mirror("results", "users"),),
    ApiKey.DESCRIBE_PRODUCERS: (_Mirror("topics", "topics", "name", _INDEXES),),
    ApiKey.DESCRIBE_TRANSACTIONS: (_Mirror("transaction_states", "transactional_ids", "transactional_id=."),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_Mirror("groups", "group_ids", "group_id=."),),
    ApiKey.SHARE_GROUP_DESCRIBE: (_Mirror("groups", "group_ids", "group_id=."),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_Mirror("groups", "groups", "group_id"),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_Mirror("topics", "topics", "name"),),
    **dict.fromkeys(
        _SHARE_STATE_APIS, (_Mirror("results", "topics", "topic_id", _Mirror("partitions", "partitions", "partition")),)
    ),
}

# The metrics count the top-level error of these even in versions that have no field for it.
_WHOLE_WITHOUT_FIELD = (ApiKey.FETCH, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_LOG_DIRS)

# From these versions on, the lists above stay empty, as there is a top-level error code.
_WHOLE_ONLY_SINCE = {ApiKey.METADATA: 13}


def error_response(request: Message, response_class: type[Message], version: int, code: int, message: str | None) -> Message | None:
    """Return the response to ``request`` with an error code and, if the version has a field for it, a message.

    None for a produce with acks=0: its connection has to be closed instead.
    """
    if response_class.KEY == ApiKey.PRODUCE and not request.acks:  # type: ignore[attr-defined]
        return None
    response = response_class()
    if has_field(response_class, "error_code", version):
        _set_error(response, version, code, message)
        if code and response_class.KEY == ApiKey.FETCH:
            response.session_id = request.session_id  # type: ignore[attr-defined]
    elif response_class.KEY in _WHOLE_WITHOUT_FIELD:
        response.error_code = code  # type: ignore[attr-defined]
    for mirror in _MIRRORS.get(response_class.KEY, ()):
        if mirror.since <= version <= mirror.until and version < _WHOLE_ONLY_SINCE.get(ApiKey(response_class.KEY), _LAST):
            setattr(response, mirror.answered, _mirrored(request, response_class, mirror, version, code, message))
    special = _SPECIAL.get(response_class.KEY)
    if special is not None:
        special(request, response, version, code, message)
    return response


def answers_each(key: int, version: int) -> bool:
    """Whether responses of this version have an error for each topic, partition or other item of the request."""
    return version < _WHOLE_ONLY_SINCE.get(ApiKey(key), _LAST) and any(
        mirror.since <= version <= mirror.until for mirror in _MIRRORS.get(key, ())
    )


def version_of_each(key: int, version: int) -> int:
    """Return the latest version up to this one whose errors are each item's own, as its answers may have them, too."""
    return min(version, _WHOLE_ONLY_SINCE.get(ApiKey(key), _LAST) - 1)


def merge_answers(response: Message, other: Message, version: int) -> None:
    """Add to a response what another one answers for other items of the request, partitions of topics that both have, too."""
    for mirror in _MIRRORS.get(response.KEY, ()):
        if mirror.since <= version <= mirror.until:
            _merge(getattr(response, mirror.answered), getattr(other, mirror.answered), mirror, version)


def _merge(items: list[Any], others: list[Any], mirror: _Mirror, version: int) -> None:
    def name(item: Any) -> tuple[Any, ...]:
        there = [field.name for field in type(item).FIELDS if field.at(version)]
        return tuple(getattr(item, copied) for pair in mirror.copied.split() if (copied := pair.partition("=")[0]) in there)

    by_name = {name(item): item for item in items}
    for other in others:
        same = by_name.get(name(other))
        if same is None or mirror.inner is None:
            items.append(other)
        else:
            _merge(getattr(same, mirror.inner.answered), getattr(other, mirror.inner.answered), mirror.inner, version)


def error_text(error: BaseException, code: int) -> str | None:
    """Return the error message for the client: a KafkaError's own, for other exceptions one that reveals nothing about the host."""
    if isinstance(error, KafkaError):
        return str(error) or None
    return "The server experienced an unexpected error when processing the request." if code else None


@cache
def has_field(struct: StructType, name: str, version: int) -> bool:
    """Whether messages of this version have a top-level field with this name."""
    return any(field.name == name and field.at(version) for field in struct.FIELDS)


def _mirrored(asked_in: Any, struct: StructType, mirror: _Mirror, version: int, code: int, message: str | None) -> list[Any]:
    element = _element(struct, mirror.answered)
    answers = []
    for item in getattr(asked_in, mirror.asked) or ():
        answer = element()
        for pair in mirror.copied.split():
            theirs, _, ours = pair.partition("=")
            setattr(answer, theirs, item if ours == "." else getattr(item, ours or theirs))
        if mirror.inner is None:
            _set_error(answer, version, code, message)
        else:
            setattr(answer, mirror.inner.answered, _mirrored(item, element, mirror.inner, version, code, message))
        answers.append(answer)
    return answers


def _element(struct: Any, name: str) -> Any:
    for field in struct.FIELDS:
        if field.name == name and isinstance(field.type, ListOf):
            return field.type.element
    raise KeyError(f"{struct.__name__} has no list {name}")


def _set_error(answer: Any, version: int, code: int, message: str | None) -> None:
    names = {field.name for field in type(answer).FIELDS if field.at(version)}
    # AddPartitionsToTxn's partitions have another name for it.
    setattr(answer, "error_code" if "error_code" in names else "partition_error_code", code)
    if message is not None and "error_message" in names:
        answer.error_message = message


def _nameless_topics(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    # A topic may be requested by id only, but before version 12 the response's name cannot be null.
    for topic in response.topics:
        topic.name = topic.name or ""


def _no_protocol(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    response.protocol_name = None if version >= 7 else ""


def _no_producer(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    response.producer_epoch = -1


def _no_token(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    response.principal_type, response.principal_name = "User", "ANONYMOUS"
    if version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = "User", "ANONYMOUS"
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1


def _no_reassignments(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    topic_class = _element(type(response), "topics")
    partition_class = _element(topic_class, "partitions")
    response.topics = [
        topic_class(name=topic.name, partitions=[partition_class(partition_index=index) for index in topic.partition_indexes])
        for topic in request.topics or ()
    ]


def _stop_replica(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    element = _element(type(response), "partition_errors")
    stopped = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    stopped += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    stopped += [(topic.topic_name, each.partition_index) for topic in request.topic_states for each in topic.partition_states]
    response.partition_errors = [element(topic_name=name, partition_index=index, error_code=code) for name, index in stopped]


def _leader_and_isr(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    if version >= 5:
        element = _element(type(response), "topics")
        partition_class = _element(element, "partition_errors")
        response.topics = [
            element(
                topic_id=topic.topic_id,
                partition_errors=[
                    partition_class(partition_index=state.partition_index, error_code=code) for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return
    partition_class = _element(type(response), "partition_errors")
    states = [(state.topic_name, state) for state in request.ungrouped_partition_states]
    states += [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    response.partition_errors = [
        partition_class(topic_name=name, partition_index=state.partition_index, error_code=code) for name, state in states
    ]


def _alter_replica_log_dirs(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    element = _element(type(response), "results")
    partition_class = _element(element, "partitions")
    topics: dict[str, list[int]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(topic.name, []).extend(topic.partitions)
    response.results = [
        element(topic_name=name, partitions=[partition_class(partition_index=index, error_code=code) for index in indexes])
        for name, indexes in topics.items()
    ]


def _alter_user_scram_credentials(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    element = _element(type(response), "results")
    users = dict.fromkeys(change.name for changes in (request.deletions, request.upsertions) for change in changes)
    response.results = [element(user=user, error_code=code, error_message=message) for user in users]


def _alter_client_quotas(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    entity_class = _element(_element(type(response), "entries"), "entity")
    for asked, answer in zip(request.entries, response.entries, strict=True):
        answer.entity = [entity_class(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity]


def _describe_client_quotas(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    response.entries = None


def _unknown_coordinator(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    if version < 4:
        response.node_id = response.port = -1
    for coordinator in response.coordinators:
        coordinator.node_id = coordinator.port = -1


def _unknown_offsets(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    partitions: Sequence[Any] = [partition for topic in response.topics for partition in topic.partitions]
    for partition in partitions:
        partition.committed_offset = -1
        partition.committed_leader_epoch = -1


def _unknown_watermarks(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    for topic in response.responses:
        for partition in topic.partitions:
            partition.high_watermark = -1


def _unknown_base_offsets(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.base_offset = -1


def _unknown_low_watermarks(request: Any, response: Any, version: int, code: int, message: str | None) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.low_watermark = -1


_SPECIAL: dict[int, Callable[[Any, Any, int, int, str | None], None]] = {
    ApiKey.PRODUCE: _unknown_base_offsets,
    ApiKey.FETCH: _unknown_watermarks,
    ApiKey.METADATA: _nameless_topics,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.STOP_REPLICA: _stop_replica,
    ApiKey.JOIN_GROUP: _no_protocol,
    ApiKey.INIT_PRODUCER_ID: _no_producer,
    ApiKey.CREATE_DELEGATION_TOKEN: _no_token,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _no_reassignments,
    ApiKey.OFFSET_FETCH: _unknown_offsets,
    ApiKey.FIND_COORDINATOR: _unknown_coordinator,
    ApiKey.DELETE_RECORDS: _unknown_low_watermarks,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
}
