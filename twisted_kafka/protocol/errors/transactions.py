"""Errors of producers and transactions."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class OutOfOrderSequenceError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The sequence number is out of order: it does not follow the last one of this producer."""


class DuplicateSequenceError(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The sequence number is a duplicate: the broker already has records with it."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """The producer epoch is invalid: a newer producer has replaced this one."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The operation is invalid in the current state of the transaction."""


class InvalidPidMappingError(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id is not the one of the transactional id."""


class InvalidTxnTimeoutError(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is larger than the broker allows."""


class ConcurrentTransactionsError(RetriableError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """Another operation on this transaction is in progress."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """The transaction coordinator that sent the marker has been fenced by a newer one."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The producer id is unknown: the broker has no state of it for the partition."""


class ProducerFencedError(KafkaError, code=ErrorCode.PRODUCER_FENCED):
    """The producer was fenced by a newer one with the same transactional id."""


class TransactionalIdNotFoundError(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """The transactional id was not found."""


class TransactionAbortableError(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction can only be aborted."""
