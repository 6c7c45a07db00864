"""Errors of logs, records and disks."""

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError


class OffsetOutOfRangeError(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset lies before the log's start or after its end."""


class CorruptRecordError(RetriableError, code=ErrorCode.CORRUPT_MESSAGE):
    """A record batch does not match its checksum, size or format."""


class InvalidFetchSizeError(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE):
    """The maximal size of a fetch makes no sense."""


class RecordTooLargeError(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record or batch is larger than the broker accepts."""


class RecordBatchTooLargeError(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """A batch is larger than a segment of the log can be."""


class NotEnoughReplicasError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Fewer replicas are in sync than the topic demands."""


class NotEnoughReplicasAfterAppendError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """The records were appended, but then fewer replicas were in sync than the topic demands."""


class InvalidTimestampError(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A record's timestamp is too far from the broker's time."""


class UnsupportedForMessageFormatError(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The record format of the topic cannot do this."""


class KafkaStorageError(InvalidMetadataError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The disk or log directory failed."""


class LogDirNotFoundError(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """There is no such log directory here."""


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The client cannot read, or the topic cannot hold, this compression."""


class OffsetNotAvailableError(RetriableError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The new leader cannot tell the offset yet, since its high watermark is behind."""


class InvalidRecordError(KafkaError, code=ErrorCode.INVALID_RECORD):
    """A record breaks a rule of the topic or of the format."""


class OffsetMovedToTieredStorageError(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
    """The offset has moved to tiered storage."""
