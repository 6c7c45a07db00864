"""Requests that wait keep their frames for an error response, up to a limit."""

from concurrent.futures import Future

from tests.server.queued_requests import QueuedRequests
from tests.support.network_fakes import FakeTransport, lines_of
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.wire import varint_bytes
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.server.dispatch import ApiRegistry, Result, api
from twisted_kafka.server.kept_frames import KEPT_FRAMES_BYTES
from twisted_kafka.timing.clock import ManualClock

UNKNOWN_BYTES = 999_000


class Family:
    """Lets each request wait."""

    def __init__(self) -> None:
        self.waiting: list[Future[FindCoordinatorResponse]] = []

    @api(FindCoordinatorRequest, FindCoordinatorResponse, versions=(4, 4))
    def find(self, context: RequestContext, request: FindCoordinatorRequest) -> Result:
        self.waiting.append(Future())
        return self.waiting[-1]


def _ask(queued: QueuedRequests, unknown_bytes: int) -> FakeTransport:
    """Send a request with a field that nobody knows, and let it wait."""
    channel, transport = queued.layer.connect()
    body = FindCoordinatorRequest(coordinator_keys=["k"]).encode(4)[:-1]
    tags = b"\1" + varint_bytes(99) + varint_bytes(unknown_bytes) + bytes(unknown_bytes)
    data = encode_request_header(ApiKey.FIND_COORDINATOR, 4, 1, "c") + body + tags
    channel.dataReceived(len(data).to_bytes(4, "big") + data)
    queued.handler.step(queued.layer.parker, 60 if queued.layer.channel.has_large_next else 0)
    return transport


def test_the_frames_of_requests_that_wait_are_bounded() -> None:
    family = Family()
    queued = QueuedRequests(ApiRegistry([family]), ManualClock())
    kept = KEPT_FRAMES_BYTES // (UNKNOWN_BYTES + 100)

    def fail_all(sizes: list[int]) -> list[bool]:
        """Return whose request got an error response; the others are closed."""
        transports = [_ask(queued, size) for size in sizes]
        for future in family.waiting:
            future.set_exception(OSError("late"))
        queued.layer.reactor.run_asked()
        family.waiting.clear()
        assert all(bool(each.written) is not each.is_closed for each in transports)
        return [bool(each.written) for each in transports]

    answered: list[list[bool]] = []
    lines_of(lambda: answered.extend(fail_all([UNKNOWN_BYTES] * (kept + 2) + [10]) for _ in range(2)))
    assert answered == [[True] * kept + [False] * 2 + [True]] * 2
