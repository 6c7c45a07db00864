"""Live parts: what is sent when, to whom, and how the hub rests. On a memory transport, with the reactor's clock turned by hand."""

import json

import pytest

from tests.console.web.served import SASL, FakeSession, Served, Transport
from tests.support.network_fakes import lines_of
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError
from twisted_kafka.console.web import application, events
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.routes import GETS, TAILS


class Lines:
    """A page whose live part has a number, and how often it was rendered."""

    def __init__(self) -> None:
        self.rendered = 0
        self.line = "first"

    def show(self, call: Call) -> Page:
        self.rendered += 1
        return Page("report.html", {"title": "T", "findings": (), "hours": (), "why_not": self.line, "state": None}, is_live=True)


@pytest.fixture(autouse=True)
def a_rendering_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a rendering may cost a tenth of a second, after which the hub rests for five."""
    for module in (application, events):
        monkeypatch.setattr(module, "thread_cpu_ns", lambda: 0)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    made = Lines()
    monkeypatch.setitem(GETS, "/", made.show)
    return made


def looking(served: Served, at: str = "/") -> Transport:
    return served.send("GET", f"/live?at={at}", served._headers({}))


def parts_of(transport: Transport) -> list[str]:
    return [json.loads(line[6:]) for line in transport.written().decode().splitlines() if line.startswith('data: "')]


def turn(served: Served, seconds: float) -> None:
    for _ in range(int(seconds * 10)):
        served.reactor.advance(0.1)


def test_a_part_is_sent_at_once_and_again_only_if_it_has_changed(lines: Lines) -> None:
    served = Served()
    stream = looking(served)
    turn(served, 0.2)
    assert len(parts_of(stream)) == 1
    turn(served, 10)
    assert len(parts_of(stream)) == 1
    assert lines.rendered >= 4
    lines.line = "second"
    turn(served, 3)
    assert ["second" in each for each in parts_of(stream)] == [False, True]


def test_browsers_with_the_same_rights_share_a_rendering(lines: Lines) -> None:
    served = Served()
    streams = [looking(served) for _ in range(20)]
    turn(served, 0.2)
    assert all(len(parts_of(each)) == 1 for each in streams)
    assert lines.rendered <= 2


def test_nothing_runs_without_a_browser(lines: Lines) -> None:
    served = Served()
    stream = looking(served)
    turn(served, 1)
    stream.loseConnection()
    before = lines.rendered
    turn(served, 60)
    assert lines.rendered == before
    assert served.application.hub.stream_count == 0


def test_a_browser_that_does_not_read_misses_parts_and_costs_nothing(lines: Lines) -> None:
    served = Served()
    stream = looking(served)
    turn(served, 1)
    stream.producer.pauseProducing()
    before, size = lines.rendered, len(stream.written())
    for number in range(5):
        lines.line = f"line {number}"
        turn(served, 3)
    assert (lines.rendered, len(stream.written())) == (before, size)
    stream.producer.resumeProducing()
    turn(served, 3)
    assert "line 4" in parts_of(stream)[-1]
    assert len(parts_of(stream)) == 2


def test_rendering_takes_at_most_a_fiftieth_of_the_time(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    cost_ns = 100_000_000
    spent = iter(range(0, 10**15, cost_ns))
    monkeypatch.setattr(application, "thread_cpu_ns", lambda: next(spent))
    served = Served()
    looking(served)
    turn(served, 60)
    assert lines.rendered <= 60 / (0.1 * (events.RESTS + 1)) + 2


def test_a_page_that_is_not_live_has_no_stream(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Call] = []

    def search(call: Call) -> Page:
        rendered.append(call)
        return Page("problem.html", {"title": "T", "line": "an expensive search", "status": 200})

    monkeypatch.setitem(GETS, "/logged", search)
    served = Served()
    stream = looking(served, "/logged")
    turn(served, 60)
    assert len(rendered) == 1
    assert b"event: end" in stream.written()
    assert parts_of(stream) == []


def test_the_handlers_part_counts_as_the_pages_do(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSession, "handled_ns", property(lambda _: 100_000_000), raising=False)
    served = Served()
    looking(served)
    turn(served, 60)
    assert lines.rendered <= 60 / (0.1 * (events.RESTS + 1)) + 2


def test_a_stream_ends_with_its_session(lines: Lines) -> None:
    served = Served(SASL)
    served.log_in()
    stream = looking(served)
    turn(served, 1)
    del served.credentials.users["SCRAM-SHA-256", "alice"]
    turn(served, 5)
    assert b"event: end" in stream.written()
    assert served.application.hub.stream_count == 0


def test_a_logout_ends_the_streams_of_its_own_session_alone(lines: Lines) -> None:
    served = Served(SASL)
    served.log_in()
    first, stream = dict(served.cookies), looking(served)
    served.cookies.clear()
    served.log_in()
    other = looking(served)
    turn(served, 1)
    served.post("/logout", {"token": served.context.tokens.token_of(next(iter(served.cookies.values())))})
    assert first != served.cookies
    turn(served, 5)
    assert b"event: end" in other.written()
    assert b"event: end" not in stream.written()


def test_a_live_part_leaves_the_notice_to_the_next_page(lines: Lines) -> None:
    served = Served()
    served.get("/")
    served.context.notices.put(next(iter(served.cookies.values())), "It is done.")
    looking(served)
    turn(served, 1)
    assert "It is done." in served.get("/").body


@pytest.mark.parametrize(
    ("error", "ends"), [(CommandError("not for you"), True), (ValueError("no such place"), True), (TryAgainError("later"), False)]
)
@pytest.mark.parametrize("at", ["/gone", "/tail"])
def test_a_part_that_is_gone_ends_without_a_traceback_and_one_that_may_return_waits(
    monkeypatch: pytest.MonkeyPatch, error: Exception, ends: bool, at: str
) -> None:
    def fail(*_: object) -> Page:
        raise error

    monkeypatch.setitem(GETS, "/gone", fail)
    monkeypatch.setitem(TAILS, "/tail", Numbers)
    monkeypatch.setattr(Numbers, "render", fail)
    served = Served()
    stream = looking(served, at)
    logged = lines_of(lambda: turn(served, 5))
    assert (b"event: end" in stream.written()) is ends
    assert not any(parts_of(stream))
    assert not logged


def test_looking_alone_does_not_keep_a_session(lines: Lines) -> None:
    served = Served({**SASL, "console.session.timeout.ms": "60000"})
    served.log_in()
    stream = looking(served)
    for _ in range(9):
        turn(served, 3)
        served.clock.advance_ms(10_000)
    assert b"event: end" in stream.written()


def test_streams_are_bounded_and_old_ones_begin_again(lines: Lines) -> None:
    served = Served()
    streams = [looking(served) for _ in range(events.MOST_STREAMS + 1)]
    assert streams[-1].answer.status == 503
    turn(served, events.LIFETIME_S + 5)
    assert served.application.hub.stream_count == 0
    assert b"event: end" not in streams[0].written()  # the browser opens another one


@pytest.mark.medium
def test_streams_of_one_user_leave_places_to_others(lines: Lines) -> None:
    served = Served(SASL)
    served.log_in()
    streams = [looking(served) for _ in range(events.MOST_STREAMS_OF_USER + 1)]
    assert streams[-1].answer.status == 503
    streams[0].loseConnection()
    assert looking(served).answer.status == 200
    served.cookies.clear()
    served.log_in("bob")
    assert looking(served).answer.status == 200


def test_a_silent_stream_has_a_heartbeat(lines: Lines) -> None:
    served = Served()
    stream = looking(served)
    turn(served, events.HEARTBEAT_S + 3)
    assert b"\n:\n\n" in stream.written()


def test_a_part_that_fails_ends_only_its_own_streams(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: Call) -> Page:
        raise RuntimeError("broken")

    monkeypatch.setitem(GETS, "/broken", fail)
    served = Served()
    good, bad = looking(served), looking(served, "/broken")
    turn(served, 5)
    assert b"event: end" in bad.written()
    lines.line = "second"
    turn(served, 5)
    assert len(parts_of(good)) == 2


class Numbers:
    """A tail that has a new number each time, and goes on from a cursor."""

    def __init__(self, query: object, context: object, cursor: str) -> None:
        self.cursor = cursor or "0"

    def render(self, session: object) -> str:
        self.cursor = str(int(self.cursor) + 1)
        return self.cursor


def test_a_tail_goes_on_where_the_browser_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TAILS, "/tail", Numbers)
    served = Served()
    stream = looking(served, "/tail")
    turn(served, 5)
    assert parts_of(stream) == ["1", "2", "3"]
    assert b"id: 3\nevent: more" in stream.written()
    again = served.send("GET", "/live?at=/tail&after=3", served._headers({}))
    turn(served, 1)
    assert parts_of(again) == ["4"]


def test_a_tail_of_a_browser_that_does_not_read_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TAILS, "/tail", Numbers)
    served = Served()
    stream = looking(served, "/tail")
    turn(served, 1)
    stream.producer.pauseProducing()
    turn(served, 20)
    stream.producer.resumeProducing()
    turn(served, 3)
    assert parts_of(stream)[:2] == ["1", "2"]


def test_closing_ends_all_streams(lines: Lines) -> None:
    served = Served()
    streams = [looking(served) for _ in range(3)]
    served.application.hub.close()
    assert all(each.written().endswith(b"0\r\n\r\n") for each in streams)
    assert looking(served).answer.status == 503
