"""Errors of producers and transactions."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class OutOfOrderSequenceError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The sequence number does not follow the last one of this producer."""


class DuplicateSequenceError(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The broker has these sequence numbers already."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """The producer's epoch is old: another producer took its place."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""


class InvalidPidMappingError(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to the transactional id."""


class InvalidTxnTimeoutError(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is larger than the broker allows."""


class ConcurrentTransactionsError(RetriableError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """Another operation on this transaction is still running."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """The transaction coordinator that sent the marker is no longer the coordinator."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker has no state of this producer id for the partition."""


class ProducerFencedError(KafkaError, code=ErrorCode.PRODUCER_FENCED):
    """A newer producer with this transactional id has fenced this one."""


class TransactionalIdNotFoundError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """There is no such transactional id."""


class TransactionAbortableError(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction can only be aborted."""
