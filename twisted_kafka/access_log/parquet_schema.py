"""The columns of the access log's Parquet files, named like the fields of a line. Needs pyarrow (extra ``parquet``)."""

from typing import TYPE_CHECKING, Final

from twisted_kafka.network.requests.request_context import ShareCount

if TYPE_CHECKING:
    import pyarrow as pa

_LONGS: Final = (
    "request_bytes",
    "response_bytes",
    "request_queue_us",
    "local_us",
    "remote_us",
    "throttle_us",
    "response_queue_us",
    "send_us",
    "total_us",
)


def arrow_schema() -> "pa.Schema":
    """Return the Arrow schema of a line, in the order of the fields."""
    import pyarrow as pa

    text, number, long = pa.string(), pa.int32(), pa.int64()
    topic = pa.struct(
        [
            ("topic", text),
            ("partitions", number),
            ("records", long),
            ("bytes", long),
            ("error", text),
            ("partition_ids", pa.list_(number)),
        ]
    )
    resource = pa.struct([("type", text), ("name", text)])
    share = pa.struct([("topic", text), *((str(each), long) for each in ShareCount)])
    decision = pa.struct([("type", text), ("name", text), ("operation", text), ("allowed", pa.bool_())])
    transaction = pa.struct([("id", text), ("outcome", text), ("duration_ms", long), ("timeout_ms", number)])
    return pa.schema(
        [
            ("v", number),
            ("time", text),
            ("node", number),
            *((name, text) for name in ("listener", "protocol", "connection", "principal", "client_id", "software")),
            ("software_version", text),
            ("api", text),
            *((name, number) for name in ("api_key", "version", "correlation_id")),
            *((name, long) for name in _LONGS),
            ("error", text),
            ("topics", pa.list_(topic)),
            ("topics_left_out", number),
            ("acks", number),
            ("group_id", text),
            ("member_id", text),
            ("generation", number),
            ("share", pa.list_(share)),
            ("share_left_out", number),
            ("resources", pa.list_(resource)),
            ("resources_left_out", number),
            ("decisions", pa.list_(decision)),
            ("decisions_left_out", number),
            ("transaction", transaction),
            ("sequence", long),
            ("weight", number),
        ]
    )
