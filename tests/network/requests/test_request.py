"""What is noted of a request, and what it is made of."""

from twisted_kafka.network.requests.kafka_principal import ANONYMOUS
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.timing.clock import ManualClock


def context() -> RequestContext:
    return RequestContext(0, 9, 1, "me", ConnectionInfo("c", "INSIDE", "SSL", "10.0.0.1", True))


def request(frame: bytes = b"frame") -> Request:
    return Request(context(), frame, 0, None, 10)


def test_the_first_error_is_the_request_s() -> None:
    noted = context()
    assert (noted.topics, noted.error) == (None, 0)
    noted.note_topic("t", (0, 1), 30, 400)
    noted.note_topic("u", (0,), 0, 0, 3)
    noted.note_topic("v", (5,), 0, 0, 6)
    assert noted.topics == [("t", (0, 1), 30, 400, 0), ("u", (0,), 0, 0, 3), ("v", (5,), 0, 0, 6)]
    noted.note_error(7)
    assert noted.error == 3
    other = context()
    other.note_error(0)
    other.note_error(7)
    other.note_topic("t", (0,), 1, 1, 3)
    assert other.error == 7


def test_conversions_add_up() -> None:
    noted = context()
    assert noted.conversion is None
    noted.note_conversion(5, 100)
    noted.note_conversion(7, 1000)
    assert noted.conversion == (12, 1100)


def test_a_context_is_of_its_connection() -> None:
    noted = context()
    assert (noted.connection_id, noted.listener_name, noted.security_protocol) == ("c", "INSIDE", "SSL")
    assert (noted.client_address, noted.is_privileged_listener, noted.principal) == ("10.0.0.1", True, ANONYMOUS)
    assert (noted.software_name, noted.software_version) == ("unknown", "unknown")
    assert not ConnectionInfo("c", "INSIDE", "SSL", "10.0.0.1").is_privileged_listener


def test_a_request_is_claimed_once() -> None:
    one = request()
    assert [one.claim(), one.claim(), one.claim()] == [True, False, False]


def test_a_buffer_is_released_once() -> None:
    pool = MemoryPool(100, ManualClock())
    one = request(b"frame")
    one.release_buffer()
    assert one.frame == b"frame", "without a pool it is no matter"
    assert pool.try_allocate(10, None)
    one.memory_pool = pool
    one.release_buffer()
    one.release_buffer()
    assert (pool.used_bytes, one.frame, one.request_bytes) == (5, b"", 5)


def test_phases_add_up_to_the_total() -> None:
    one = request()
    one.dequeued_ns, one.local_complete_ns, one.response_ready_ns = 11, 13, 17
    one.response_dequeued_ns, one.sent_ns, one.throttle_ns = 25, 41, 5
    assert one.phases_ns() == (1, 2, 4, 5, 8, 16, 31)
