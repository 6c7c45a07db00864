"""Errors of logs, records and disks."""

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError


class OffsetOutOfRangeError(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset is out of range: before the start of the log or after its end."""


class CorruptRecordError(RetriableError, code=ErrorCode.CORRUPT_MESSAGE):
    """A record batch is corrupt: its checksum, size or format is invalid, or it has a null key in a compacted topic."""


class RecordTooLargeError(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record or batch is larger than the broker accepts."""


class RecordBatchTooLargeError(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """A batch is larger than the maximum size of a log segment."""


class NotEnoughReplicasError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """There are fewer in-sync replicas than the topic requires."""


class InvalidTimestampError(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A record's timestamp is out of the allowed range."""


class KafkaStorageError(InvalidMetadataError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The log directory failed."""


class LogDirNotFoundError(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """The log directory was not found."""


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The client or the message format does not support this compression type."""


class OffsetNotAvailableError(RetriableError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The offset is not available yet: the new leader's high watermark is behind."""


class InvalidRecordError(KafkaError, code=ErrorCode.INVALID_RECORD):
    """A record is invalid: it violates a rule of the topic or of its format."""
