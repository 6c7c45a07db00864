"""A day against a history of earlier days: who is new, what changed, and hours unlike the same hours of other weeks."""

import datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import line, topic
from tests.spark.folded import cells
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.history import History, of_rows
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.find import find
from twisted_kafka_spark.findings.finding import Finding

DATES = [datetime.date(2026, 11, 21) - datetime.timedelta(weeks=week) for week in (1, 2, 3)]


def history(each_hour: float = 120, dates: list[datetime.date] = DATES) -> History:
    counts = [
        ("app", "User:a", "Produce", datetime.datetime.combine(date, datetime.time(hour)), each_hour)
        for date in dates
        for hour in range(6)
    ]
    return of_rows(["User:a", "User:b"], [("app", "User:a", "librdkafka 2.0.2", 1)], [("orders", "User:a")], counts, dates)


def findings(lines: list[str], known: History) -> dict[str, Finding]:
    tables = views.compute(cells(lines), MINUTE_S)
    tables.history = known
    return {each.name: each for each in find(tables)}


def steady(minutes: range, api: str = "Produce", **changes: Any) -> list[str]:
    fields = {"topics": [topic("orders", 10)], "client_id": "app", "principal": "User:a"} | changes
    return [
        line(api, 0, time=f"2026-11-21T{minute // 60:02}:{minute % 60:02}:{second}.000Z", **fields)
        for minute in minutes
        for second in (10, 40)
    ]


def test_a_day_like_the_others_has_no_finding() -> None:
    assert findings(steady(range(360)), history()) == {}


def test_hours_unlike_those_of_other_weeks_are_named() -> None:
    other = steady(range(360), client_id="other")
    found = findings(other + steady(range(180)) + steady(range(180, 360, 10)), history())["unusual-hours"]
    assert (found.evidence["client_id"], found.evidence["api"], found.evidence["usual"]) == ("app", "Produce", 360)
    assert (found.first, found.last) == ("2026-11-21T03:00Z", "2026-11-21T05:59Z")
    assert "far less" in found.title
    assert "far more" in findings(steady(range(360)), history(30))["unusual-hours"].title


def test_a_client_that_is_missing_all_day_is_named() -> None:
    found = findings(steady(range(360), client_id="other"), history())["unusual-hours"]
    assert (found.evidence["client_id"], found.evidence["requests"]) == ("app", 0)


def test_who_is_new_and_what_changed_is_named() -> None:
    lines = steady(range(360), software_version="2.8.0")
    lines += steady(range(100, 110), "Fetch", client_id="b", principal="User:b")
    lines += steady(range(200, 203), "Fetch", client_id="c", principal="User:c", connection="10.0.0.1:9092-10.6.6.6:1-0")
    found = findings(lines, history())
    assert (found["new-principal"].evidence["principal"], found["new-principal"].evidence["address"]) == ("User:c", "10.6.6.6")
    assert found["new-principal"].first == "2026-11-21T03:20Z"
    assert (found["new-reader"].evidence["principal"], found["new-reader"].evidence["topic"]) == ("User:b", "orders")
    assert (found["changed-client"].evidence["before"], found["changed-client"].evidence["after"]) == (
        "librdkafka 2.0.2",
        "librdkafka 2.8.0",
    )


def test_a_short_history_says_nothing() -> None:
    assert findings(steady(range(360), client_id="other", principal="User:new"), history(dates=DATES[:2])) == {}
