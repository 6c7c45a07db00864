"""Which segments a log no longer keeps."""

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.read_limits import ReadLimits


def exceeds_retention(limits: ReadLimits, config: LogConfig, now_ms: int) -> bool:
    """Return whether the oldest segment exceeds ``retention.ms`` or ``retention.bytes``, or is below the log start offset.

    The retention applies only if cleanup.policy includes delete. Records above the high watermark are kept.
    """
    segments = limits.segments
    oldest = segments.first
    following = segments.after(oldest)
    is_last = following is None
    end = limits.log_end.message_offset if following is None else following.base_offset
    if end > limits.high_watermark.message_offset or (is_last and not oldest.size_bytes):
        return False
    if not is_last and end <= limits.log_start_offset:
        return True
    if "delete" not in config.cleanup_policy:
        return False
    if 0 <= config.retention_bytes <= segments.size_bytes - oldest.size_bytes:
        return True
    return config.retention_ms >= 0 and oldest.largest_timestamp_ms() < now_ms - config.retention_ms
