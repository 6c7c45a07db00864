"""A completed request."""

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext

NOW_MS = 1_700_000_000_123


def request(client_id: str | None = "app", connection: ConnectionInfo | None = None) -> Request:
    connection = connection or ConnectionInfo("127.0.0.1:9092-127.0.0.1:4000-0", "INSIDE", "PLAINTEXT", "127.0.0.1")
    made = Request(RequestContext(1, 11, 77, client_id, connection), b"x" * 50, 20, None, 1_000_000)
    made.dequeued_ns = 1_010_000
    made.local_complete_ns = 1_040_000
    made.response_ready_ns = 1_540_999
    made.response_dequeued_ns = 1_545_000
    made.sent_ns = 1_560_000
    made.response_bytes = 1234
    return made
