from tests.support.network_fakes import Layer, lines_of
from twisted_kafka.network.log_rate_limit import INTERVAL_NS, LINES, LogRateLimit
from twisted_kafka.timing.clock import ManualClock


def test_so_many_lines_in_so_much_time() -> None:
    clock = ManualClock()
    limit = LogRateLimit(clock.monotonic_ns)
    assert [limit.allow() for _ in range(LINES + 3)] == [True] * LINES + [False] * 3
    clock.advance_ms(INTERVAL_NS / 1e6)
    assert limit.allow()
    assert limit.take_suppressed() == " (3 similar lines were suppressed before this one)"
    assert limit.take_suppressed() == ""
    clock.advance_ms(INTERVAL_NS / 1e6 - 1)
    assert [limit.allow() for _ in range(LINES)] == [True] * (LINES - 1) + [False], "the second interval is not over"
    clock.advance_ms(1)
    assert limit.allow()
    assert limit.take_suppressed() == " (1 similar lines were suppressed before this one)"


def test_clients_that_speak_something_else_get_a_hint_and_do_not_flood_the_log() -> None:
    layer = Layer()

    def greet(data: bytes) -> list[str]:
        return lines_of(lambda: layer.connect()[0].dataReceived(data))

    assert "the client speaks TLS, but this listener is plain text" in greet(b"\x16\x03\x01\x02\0")[0]
    assert "the client speaks HTTP" in greet(b"GET / HTTP/1.1")[0]
    lines = [line for _ in range(50) for line in greet(b"\xff\xff\xff\xff")]
    assert len(lines) == LINES - 2
    assert layer.processor.channels == {}
