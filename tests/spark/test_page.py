"""The charts and the findings of the page, from documents made by hand."""

import re
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from twisted_kafka_spark.report.charts import Mark, scale, short, stacked_steps
from twisted_kafka_spark.report.kinds import MOST_SHOWN
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text
from twisted_kafka_spark.report.words import BYTES


def labels(chart: str) -> list[str]:
    return re.findall(r'y="226" text-anchor="\w+"[^>]*>([^<]*)<', chart)


@pytest.mark.parametrize(
    ("ticks", "shown"),
    [
        ([f"2026-11-21 {hour:02}:00" for hour in range(7)], [f"{hour:02}:00" for hour in range(7)]),
        (
            [f"2026-11-{21 + hour // 24} {hour % 24:02}:00" for hour in range(0, 73, 12)],
            ["21 Nov 00:00", "12:00", "22 Nov 00:00", "12:00", "23 Nov 00:00", "12:00", "24 Nov 00:00"],
        ),
        ([f"2026-11-{day:02} 00:00" for day in range(1, 8)], [f"{day} Nov" for day in range(1, 8)]),
        ([f"2026-11-21 {at // 6:02}:{at % 6}0" for at in range(144)], [f"{hour:02}:00" for hour in range(0, 24, 4)]),
        ([f"2026-11-{1 + hour // 8:02} {hour % 8 * 3:02}:00" for hour in range(80)], [f"{day} Nov" for day in range(1, 10, 2)]),
        ([f"2026-11-21 08:{at:02}" for at in range(7, 20, 2)], ["08:07", "08:09", "08:11", "08:13", "08:15", "08:17", "08:19"]),
        (["2026-11-21 08:00"], ["08:00"]),
        ([f"{year}-12-31 00:00" for year in range(2001, 2005)], [f"31 Dec {year}" for year in range(2001, 2005)]),
    ],
)
def test_the_axis_names_round_times_and_dates_where_there_is_more_than_one(ticks: list[str], shown: list[str]) -> None:
    assert labels(stacked_steps(ticks, {"Fetch": [1.0] * len(ticks)}, "requests")) == shown


def test_a_spike_does_not_flatten_the_other_columns() -> None:
    totals = [100.0 + at % 7 for at in range(100)]
    assert scale(totals) == 106
    totals[40] = 50_000.0
    assert scale(totals) == 4 * 106
    ticks = [f"2026-11-21 {at // 60:02}:{at % 60:02}" for at in range(100)]
    chart = stacked_steps(ticks, {"Fetch": totals}, "requests")
    assert chart.count('class="cut"') == 1
    assert "Fetch 50k" in chart, "the tip has the value"
    assert 'class="cut"' not in stacked_steps(ticks, {"Fetch": [1.0] * 50 + [900.0] * 50}, "requests"), "half of all is no spike"
    assert scale([0.0] * 99 + [7.0]) == 7
    assert scale([0.0, 0.0]) == 1


def test_bytes_have_the_units_of_the_tables() -> None:
    chart = stacked_steps(["2026-11-21 08:00"], {"sent": [3 * 2**20]}, "bytes", BYTES)
    assert "3.0 MiB" in chart
    assert re.findall(r'text-anchor="end">([^<]*)<', chart) == ["0 MiB", "1.5 MiB", "3 MiB"], "an axis has one unit"
    assert short(3 * 2**20) not in chart


def test_marks_are_over_their_ticks() -> None:
    ticks = [f"2026-11-21 08:{at:02}" for at in range(10)]
    chart = stacked_steps(ticks, {"Fetch": [1.0] * 10}, "requests", marks=[Mark(5, 9, "slow-disk: <b>")])
    ((x, width),) = re.findall(r'class="mark critical" x="([\d.]+)" y="0" width="([\d.]+)"', chart)
    assert float(x) == pytest.approx(64 + 888 / 2, abs=0.1)
    assert float(width) == pytest.approx(888 / 2, abs=0.1)
    assert "slow-disk: &lt;b&gt;" in chart


def document(findings: list[dict[str, Any]], **period: Any) -> dict[str, Any]:
    ticks = [f"2026-11-21T08:{at:02}" for at in range(10)]
    numbers = dict.fromkeys(("requests", "failed", "throttled", "request_bytes", "response_bytes", "bytes", "expected"), 0)
    series = {name: [0] * 10 for name in ("failed", "expected", "throttled", "throttle_us", "request_bytes", "response_bytes")}
    return {
        "period": {"first": ticks[0], "last": ticks[-1], "tick_s": 60, **period},
        "source": {
            "from": "log",
            "files": 1,
            "size_bytes": 5,
            "condition": "",
            "lines": {},
            "samples": {},
            "repeated_files": [],
            "repeated_lines": 0,
        },
        "total": numbers,
        "findings": findings,
        "time": {"ticks": ticks, "requests": {"Fetch": [1] * 10}, "errors": {}, **series},
        "apis": [],
        "latency": [],
        "client_apis": [],
        "client_errors": [],
        "partitions": [],
        "clients": [],
        "principals": [],
        "connections": [],
        "listeners": [],
        "topics": [],
        "errors": [],
        "waiting": {"us": {}, "share": {}},
        "transactions": {"total": {"begun": 0, "refused": 0}, "outcomes": []},
        "security": {
            "total": {"refusals": 0, "failed_logins": 0, "addresses": 0},
            **dict.fromkeys(("refused_topics", "refused", "refused_groups", "failed_logins", "plain_text"), ()),
        },
        "administration": [],
        "lineage": [],
        "groups": [],
        "topic_total": {},
        "topic_errors": [],
        "versions": [],
        "software": [],
        "group_by": {"keys": [], "rows": []},
    }


def finding(name: str, number: int, first: str | None = None, last: str | None = None) -> dict[str, Any]:
    said = {"title": f"{name} number {number}", "advice": "Do it.", "where": "", "evidence": {}, "severity": "warning"}
    return {"name": name, **said, "first": first, "last": last}


def test_a_kind_with_many_findings_does_not_hide_another() -> None:
    many = [finding("old-client", number) for number in range(40)] + [finding("hot-topic", 1)]
    page = as_html(document(many))
    assert page.count('<article class="finding warning">') == MOST_SHOWN + 1
    assert "<li>old-client number 39</li>" in page
    assert f"{40 - MOST_SHOWN} more of the kind old-client" in page
    text = as_text(document(many), width=200)
    assert text.count("* old-client: old-client number") == MOST_SHOWN
    assert f"* old-client: {40 - MOST_SHOWN} more" in text
    assert "41 findings" in text
    assert "\n1 finding\n" in as_text(document(many[:1]), width=200)


def test_findings_with_a_time_are_marked_and_others_are_not() -> None:
    marked = [
        finding("slow-disk", 1, "2026-11-21T08:02Z", "2026-11-21T08:04Z"),
        finding("slow-disk", 2, "2026-11-20T08:02Z", "2026-11-20T08:04Z"),
        finding("old-client", 1),
    ]
    page = as_html(document(marked, end="2026-11-21T08:10"))
    assert re.findall(r'class="mark warning"[^>]*><title>([^<]*)<', page) == ["slow-disk: slow-disk number 1"]


def test_the_period_ends_when_its_last_minute_is_over() -> None:
    page = as_html(document([], begin="2026-11-21T08:00", end="2026-11-21T08:10"))
    assert "<title>Kafka requests, 2026-11-21 08:00 to 2026-11-21 08:10</title>" in page


def test_marks_have_the_row_of_their_severity_and_are_thin_if_they_last() -> None:
    ticks = [f"2026-11-21 08:{at:02}" for at in range(10)]
    marks = [Mark(0, 9, "all day", "notice"), Mark(2, 3, "some", "warning"), Mark(2, 3, "bad", "critical")]
    chart = stacked_steps(ticks, {"Fetch": [1.0] * 10}, "requests", marks=marks)
    found = re.findall(r'class="mark (\w+)" x="[\d.]+" y="(\d+)" width="[\d.]+" height="([\d.]+)"', chart)
    assert found == [("notice", "12", "1.5"), ("warning", "6", "5"), ("critical", "0", "5")]


def test_a_card_has_badges_times_evidence_and_a_command() -> None:
    found = finding("slow-disk", 1, "2026-11-21T15:20Z", "2026-11-21T15:29Z")
    found |= {"state": "open", "impact": "slow", "owner": "storage", "where": "node = 2", "evidence": {"node": 2, "none": None}}
    found["title"] = "Local processing in broker 2 was slow, 2026-11-21T15:20Z to 2026-11-21T15:29Z"
    page = as_html(document([found], begin="2026-11-21T08:00", end="2026-11-21T08:10"))
    assert "<h3>Local processing in broker 2 was slow</h3>" in page
    assert re.search(r'data-form="time">15:20</time>-<time [^>]*>15:29</time>', page)
    for text in ('<span class="badge warning">warning</span>', "owner: storage", "<strong>slow</strong>", 'href="#latency"'):
        assert text in page
    assert '<th scope="row" class="text">node</th><td class="text">2</td>' in page
    assert "none</th>" not in page
    assert "twisted-kafka report" in page


def test_long_tables_fold_and_empty_parts_say_so() -> None:
    from twisted_kafka_spark.report.tables import count, table

    rows = [{"n": number} for number in range(20)]
    folded = table("Numbers", rows, [count("n", "n")])
    assert folded.split("<details>")[0].count("<tr>") == 1 + 8
    assert "12 more" in folded
    page = as_html(document([]))
    for text in ("0 refusals, 0 failed logins.", "0 changes of the cluster.", "0 groups.", "0 transactions.", "0 failed requests."):
        assert text in page
