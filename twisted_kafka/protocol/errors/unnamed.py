"""Errors that no code of the broker names: it sends their codes, or a peer does. Each is a row instead of a class."""

from typing import Final

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError

_FINAL: Final = {
    ErrorCode.INVALID_FETCH_SIZE: "The maximum size of the fetch is invalid.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of a committed offset is larger than the broker allows.",
    ErrorCode.INVALID_REQUIRED_ACKS: "The value for required acks is invalid: it must be -1, 0 or 1.",
    ErrorCode.ILLEGAL_GENERATION: "The member's generation is not valid: it is not the group's current generation.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member's protocol type or protocols are empty or do not fit the group.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is not within the range that the broker allows.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing, so the member has to rejoin.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The size of the offset commit is not valid: it is too large.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request is illegal, not valid in the current state of the SASL exchange.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The topic's message format version does not support the request.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The sequence number is a duplicate: the broker already has records with it.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id is not the one of the transactional id.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is larger than the broker allows.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional id authorization failed: the principal may not use it.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "The operation was not attempted, because another operation in the same request failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The producer id is unknown: the broker has no state of it for the partition.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Requests about delegation tokens are not allowed with this authentication.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation token authorization failed: the principal may not access it.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The principal type is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty: it still has members.",
    ErrorCode.MEMBER_ID_REQUIRED: "The member has to rejoin with the member id in this response.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic, so its offsets cannot be deleted.",
    ErrorCode.PRODUCER_FENCED: "The producer was fenced by a newer one with the same transactional id.",
    ErrorCode.INCONSISTENT_VOTER_SET: "The voter set of the sender differs from this node's.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The principal of the forwarded request cannot be deserialized.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "The snapshot was not found.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position is out of the range of the snapshot.",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "Another live broker is already registered with this broker id.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "The broker id is not registered.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id in the request is not this cluster's.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactional id was not found.",
    ErrorCode.INELIGIBLE_REPLICA: "The replica is not eligible to join the ISR.",
    ErrorCode.NEW_LEADER_ELECTED: "The change of the partition elected a new leader.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset has moved to tiered storage.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is older than the coordinator's.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request was sent to an endpoint of the wrong type.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "This type of endpoint is not supported yet.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "The controller id is unknown.",
    ErrorCode.INVALID_REGISTRATION: "The controller considers the broker's registration invalid.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction can only be aborted.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator has fenced the state epoch: there is a newer one.",
    ErrorCode.INVALID_VOTER_KEY: "The voter key does not match the known voter's.",
    ErrorCode.DUPLICATE_VOTER: "The voter is already in the set of voters.",
    ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set of voters.",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client has to bootstrap again from its bootstrap servers.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The epoch of the streams topology is invalid.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The epoch of the streams topology is older than the group's.",
    ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted completely.",
    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "The description of the streams topology could not be stored.",
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "The controller id is not registered.",
}
"""A retry fails likewise."""

_RETRIABLE: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were appended, but then there were too few in-sync replicas.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Another operation on this transaction is in progress.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "The fetch session was not found.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session epoch is invalid.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "There are unstable offsets: a transaction that commits them is still open.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session and the request do not both name topics by id, or both by name.",
}
"""A retry may succeed."""

_STALE_METADATA: Final = {
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader.",
    ErrorCode.NETWORK_EXCEPTION: "The connection was closed before the response arrived.",
    ErrorCode.LISTENER_NOT_FOUND: "The leader has no listener with the name of the one that received the request.",
}
"""A retry may succeed with new metadata."""


def _declare(base: type[KafkaError], messages: dict[ErrorCode, str]) -> None:
    for code, message in messages.items():
        name = f"{code.name.title().replace('_', '')}Error"
        type(name, (base,), {"__doc__": message, "__module__": __name__}, code=code)


_declare(KafkaError, _FINAL)
_declare(RetriableError, _RETRIABLE)
_declare(InvalidMetadataError, _STALE_METADATA)
