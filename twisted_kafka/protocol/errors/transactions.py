"""Errors of producers and transactions."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError


class OutOfOrderSequenceError(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The sequence number is out of order: it does not follow the last one of this producer."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """The producer epoch is invalid: a newer producer has replaced this one."""


class InvalidTxnStateError(KafkaError, code=ErrorCode.INVALID_TXN_STATE):
    """The operation is invalid in the current state of the transaction."""


class TransactionCoordinatorFencedError(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """The transaction coordinator that sent the marker has been fenced by a newer one."""
