import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import twisted_kafka
from tests.support.console import make_topic, session_in, write
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.overview import Broker
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.tools.main import main
from twisted_kafka.tools.top.picture import as_json, lines
from twisted_kafka.tools.top.snapshot import Snapshot, rates, take

SECOND_NS = 1_000_000_000


def snapshot(at_s: int, ends: dict[str, int], **more: Any) -> Snapshot:
    brokers = (Broker(1, "host", 9092, None, True), Broker(2, "other", 9092, None, False))
    given: dict[str, Any] = {
        "leaders": {1: 7},
        "totals": (3, 1, 7, 0, 0),
        "groups": {"lagging": ("Stable", 1_234), "quiet": ("Empty", 0), "unknown": ("", None)},
        "group_count": 3,
        **more,
    }
    return Snapshot(at_s * SECOND_NS, "cluster", brokers, ends=ends, **given)


def test_rates_are_differences_of_end_offsets() -> None:
    before, now = snapshot(0, {"a": 10, "b": 5, "gone": 1}), snapshot(2, {"a": 10, "b": 25, "new": 3})
    assert [(each.name, each.per_s) for each in rates(now, before)] == [("b", 10.0), ("a", 0.0), ("new", None)]
    assert [each.per_s for each in rates(snapshot(4, {"b": 1}), now)] == [0.0]  # it was deleted and made again


def test_a_picture() -> None:
    before, now = snapshot(0, {"orders": 0}), snapshot(2, {"orders": 2_469})
    assert lines(now, before, 60, None) == [
        "cluster cluster  2 brokers  1,234 records/s",
        "2 topics  7 partitions  3 groups",
        "",
        "BROKER",
        "*    1       7 leaders  host:9092",
        "     2       0 leaders  other:9092",
        "",
        "TOPIC                                RECORDS/S       RECORDS",
        "orders                                   1,234         2,469",
        "",
        "GROUP                                    STATE           LAG",
        "lagging                                 Stable         1,234",
        "quiet                                    Empty             0",
        "unknown                                      -             -",
    ]


@pytest.mark.parametrize("columns", [1, 20, 39, 40, 80, 300])
@pytest.mark.parametrize("rows", [1, 5, 12, 24, None])
def test_a_picture_fits(columns: int, rows: int | None) -> None:
    topics = {f"topic-{number}-{'x' * number}": number for number in range(60)}
    now = snapshot(2, topics, totals=(60, 0, 60, 2, 3), notes=("rates of 60 of 900 topics (--topics)",))
    shown = lines(now, snapshot(0, topics), columns, rows)
    assert all(len(each) <= max(columns, 20) for each in shown)
    assert rows is None or len(shown) <= rows
    if columns >= 80 and rows in (None, 24):
        assert "2 WITHOUT LEADER; 3 under-replicated" in shown[1]
        assert shown[-1].startswith("rates of 60 of 900")


def test_orders() -> None:
    before, now = snapshot(0, {"a": 5, "b": 0}), snapshot(1, {"a": 5, "b": 3})

    def names(**order: str) -> list[str]:
        return [each.split()[0] for each in lines(now, before, 80, None, **order) if each[:1].islower()][1:]

    assert names()[:2] == ["b", "a"]
    assert names(topics_by="records")[:2] == ["a", "b"]
    assert names(topics_by="name")[:2] == ["a", "b"]
    assert names(groups_by="name")[2:] == ["lagging", "quiet", "unknown"]


def test_names_cannot_control_a_terminal() -> None:
    now = snapshot(1, {"a\x1b[2Jb\u202e": 1})
    text = "\n".join(lines(now, None, 80, None))
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.fixture(scope="module")
def broker() -> Iterator[twisted_kafka.Broker]:
    with twisted_kafka.Broker() as running:
        session = session_in(running)
        for name in ("orders", "quiet"):
            make_topic(session, name)
        write(session, "orders", [Written(None, b"v")] * 30)
        ResetOffsets("app", ("orders",), "10").do(session)
        yield running


@pytest.fixture
def session(broker: twisted_kafka.Broker) -> Session:
    return session_in(broker)


@pytest.mark.medium
def test_a_snapshot_of_a_cluster(session: Session) -> None:
    found = take(session, ManualClock(), most_topics=10, most_groups=10)
    assert found.ends == {"orders": 30, "quiet": 0}
    assert found.groups["app"] == ("Empty", 20)
    assert found.notes == ()
    few = take(session, ManualClock(), most_topics=1, most_groups=0)
    assert few.ends == {"orders": 30}
    assert few.notes == ("rates of 1 of 2 topics (--topics)", "lag of 0 of 1 groups (--groups)")
    assert as_json(found, None)["groups"] == [{"group": "app", "state": "Empty", "lag": 20}]


@pytest.mark.medium
def test_one_picture_for_a_pipe(broker: twisted_kafka.Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "-b", broker.bootstrap_servers, "--once", "-i", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "orders" in out
    assert "0 records/s" in out
    for interval in ("0.1", "inf", "1e300", "nan"):
        assert main(["top", "-b", broker.bootstrap_servers, "-i", interval]) == 2
        assert "expected 0.2 to 3600 seconds" in capsys.readouterr().err
    for timeout in ("0", "inf", "1e300", "nan"):
        assert main(["top", "-b", broker.bootstrap_servers, "--timeout", timeout]) == 2
        assert "expected a number of seconds above 0" in capsys.readouterr().err
    assert main(["top", "-b", "127.0.0.1:1", "--once"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130), (None, 0)])
def test_keys_end_it(broker: twisted_kafka.Broker, key: bytes | None, status: int) -> None:
    import pty
    import subprocess

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "twisted_kafka.tools.main", "top", "-b", broker.bootstrap_servers, "-i", "0.3"]
    environment = {**os.environ, "COLUMNS": "40", "LINES": "20"}
    started = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment, start_new_session=True, preexec_fn=_controls
    )
    os.close(theirs)
    seen = b""
    while b"orders" not in seen:
        seen += os.read(ours, 4096)
    assert seen.startswith(b"\x1b[?1049h")
    if key is None:
        os.close(ours)  # the terminal is gone
        started.wait(30)
        return
    os.write(ours, b"tg" + key)
    while b"\x1b[?1049l" not in seen:
        seen += os.read(ours, 4096)
    assert started.wait(30) == status
    os.close(ours)


def _controls() -> None:
    """Make standard input the terminal that controls the process, for ctrl-C."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
