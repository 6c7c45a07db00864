"""Counting transactions: against a simple model that reads all lines in order, and what is left open or mostly aborted."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark.access_lines import in_transaction, line, moment
from tests.spark.folded import cells
from tests.spark.following import Following
from tests.support.budget import share_of
from tests.support.cases import case
from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.histogram import WORST_ERROR
from twisted_kafka_spark.cells.kinds import DAY_S, HOUR_S, MINUTE_S
from twisted_kafka_spark.findings.find import find, find_over_all
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.pipeline.document import About, build
from twisted_kafka_spark.records.schema import OUTCOMES
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text
from twisted_kafka_spark.views import Row

COUNTS = ("begun", "committed", "aborted", "fenced", "timed_out", "refused", "open")
IDS = ("a", "b", 'q"x')
SECOND_MS, MINUTE_MS = 1000, 60_000


def counted(table: pa.Table) -> list[Row]:
    return views.compute(table, MINUTE_S)["transaction"]


def essence(rows: Iterable[Row]) -> dict[str | None, dict[str, Any]]:
    names = (*COUNTS, "active_us", "idle_us", "timeout_us", "total_us", "max_us", "buckets", "client_id")
    return {row["transactional_id"]: {name: row[name] for name in names} for row in rows}


class Model:
    """Random requests of a few transactional ids, with what a reader who knows the order would count."""

    def __init__(self, chosen: random.Random, steps: int) -> None:
        self._chosen = chosen
        self._at_ms = self._last_ms = 0
        self.lines: list[str] = []
        self.counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
        self.durations: dict[str, list[int]] = defaultdict(list)
        self.begun_ms: dict[str, int] = {}
        self.used_ms: dict[str, int] = {}
        for _ in range(steps):
            self._at_ms += chosen.choice((1, 30, SECOND_MS, 20 * SECOND_MS, 10 * MINUTE_MS))
            chosen.choice((self._use, self._use, self._end, self._end, self._refuse, self._initialize, self._fetch, self._write))(
                chosen.choice(IDS)
            )

    def _add(self, api: str, transactional_id: str, outcome: str = "", **changes: Any) -> None:
        self._last_ms = self._at_ms
        took_ms = self._at_ms - self.begun_ms.get(transactional_id, 0)
        if api == "Produce":
            changes = {"version": 12} | changes  # in which it adds partitions
        self.lines.append(in_transaction(api, transactional_id, self._at_ms, outcome, took_ms, **changes))
        if outcome:
            counts = self.counts[transactional_id]
            counts[outcome.replace("-", "_")] += 1
            counts["open"] = 0
            self.durations[transactional_id].append(took_ms)
            del self.begun_ms[transactional_id]

    def _use(self, transactional_id: str) -> None:
        if transactional_id not in self.begun_ms:
            self.begun_ms[transactional_id] = self._at_ms
            self.counts[transactional_id]["begun"] += 1
            self.counts[transactional_id]["open"] = 1
        self.used_ms[transactional_id] = self._at_ms
        self._add(self._chosen.choice(("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce")), transactional_id)

    def _end(self, transactional_id: str) -> None:
        if transactional_id not in self.begun_ms:
            self.counts[transactional_id]["open"] = 0
            self._add("EndTxn", transactional_id)  # asked again
            return
        outcome = self._chosen.choice(OUTCOMES)
        if outcome == "fenced":
            self._add("InitProducerId", transactional_id, outcome, error="CONCURRENT_TRANSACTIONS")
        else:
            self._add("EndTxn", transactional_id, outcome)

    def _refuse(self, transactional_id: str) -> None:
        error = self._chosen.choice(("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"))
        self.counts[transactional_id]["refused"] += error != "INVALID_TXN_STATE"
        self._add(self._chosen.choice(("EndTxn", "AddPartitionsToTxn", "InitProducerId", "Produce")), transactional_id, error=error)

    def _initialize(self, transactional_id: str) -> None:
        if transactional_id not in self.begun_ms:
            self.counts[transactional_id]["open"] = 0
            self._add("InitProducerId", transactional_id)

    def _write(self, transactional_id: str) -> None:
        """Write to what is in the transaction already: that broker may have another clock than the coordinator."""
        self._add("Produce", transactional_id, version=11)

    def _fetch(self, _: str) -> None:
        self._last_ms = self._at_ms
        self.lines.append(line("Fetch", 0, time=moment(self._at_ms)))

    def check(self, rows: list[Row]) -> None:
        found = {row["transactional_id"]: row for row in rows}
        assert {name: {each: row[each] for each in COUNTS} for name, row in found.items()} == {
            name: self.counts[name] for name in found
        }
        assert all(not any(counts.values()) for name, counts in self.counts.items() if name not in found)
        for name, row in found.items():
            assert row["total_us"] == 1000 * sum(self.durations[name])
            assert row["max_us"] == 1000 * max(self.durations[name], default=0)
            assert sum(sum(buckets.values()) for buckets in row["buckets"].values()) == len(self.durations[name])
            idle_ms = self._last_ms - self.used_ms[name] if row["open"] else None
            assert row["idle_us"] == (None if idle_ms is None else 1000 * idle_ms)


@settings(max_examples=share_of(30))
@given(st.integers(0, 2**32), st.integers(1, 80), st.sampled_from((0, MINUTE_S, HOUR_S, DAY_S)))
def test_transactions_are_counted_as_by_a_reader_of_all_lines_in_order(seed: int, steps: int, grain_s: int) -> None:
    chosen = random.Random(seed)
    model = Model(chosen, steps)
    whole = cells(model.lines, grain_s=grain_s)
    model.check(counted(whole))
    parts: list[list[str]] = [[] for _ in range(chosen.randrange(1, 5))]
    for text in model.lines:
        chosen.choice(parts).append(text)
    chosen.shuffle(parts)
    assert essence(counted(cells(*parts, grain_s=grain_s))) == essence(counted(whole))


@pytest.mark.slow
def test_following_a_log_counts_each_transaction_once(spark: Any, tmp_path: Path) -> None:
    chosen = random.Random(3)
    model = Model(chosen, 400)
    following = Following(spark, tmp_path / "rolled")
    cuts = sorted(chosen.randrange(len(model.lines)) for _ in range(3))
    for number, (at, until) in enumerate(zip([0, *cuts], [*cuts, len(model.lines)], strict=True)):
        following.batch(number, model.lines[at:until])
    written = following.cells()
    assert sum(row["begun"] for row in counted(written)) > 50
    model.check(counted(written))


def test_durations_are_within_the_stated_error() -> None:
    lines = [in_transaction("EndTxn", "a", at, "committed", took_ms) for at, took_ms in enumerate((5, 10, 400))]
    lines += [in_transaction("EndTxn", "a", 9, "aborted", 20), in_transaction("EndTxn", "b", 9, "aborted", 20_000)]
    found = document(lines)["transactions"]
    (a, b) = found["producers"]
    assert (a["transactional_id"], a["begun"], a["mean_us"], a["max_us"]) == ("a", 4, 108_750, 400_000)
    assert a["duration_us"]["p50"] == pytest.approx(10_000, rel=WORST_ERROR + 0.001)
    assert b["duration_us"]["p99"] == pytest.approx(20_000_000, rel=WORST_ERROR + 0.001)
    assert [(each["outcome"], each["transactions"]) for each in found["outcomes"][:2]] == [("committed", 3), ("aborted", 2)]
    assert found["outcomes"][1]["duration_us"]["p50"] == pytest.approx(20_000, rel=WORST_ERROR + 0.001)


def test_an_outcome_of_a_later_version_ends_a_transaction() -> None:
    lines = [in_transaction("AddPartitionsToTxn", "a", 0), in_transaction("EndTxn", "a", 1, "forgotten", 1)]
    (row,) = counted(cells(lines))
    assert (row["begun"], row["open"]) == (0, 0)


# bounded


def document(lines: list[str]) -> dict[str, Any]:
    return build(views.compute(cells(lines), MINUTE_S), About("test"), MINUTE_S, [])


def test_the_page_has_the_busiest_and_counts_the_others_together() -> None:
    lines = []
    for number in range(views.TOP + 7):
        lines += [in_transaction("EndTxn", f"tx-{number:02}", at, "committed", 5) for at in range(2 + (number == 20))]
    found = document(lines)["transactions"]
    assert len(found["producers"]) == views.TOP
    assert found["producers"][0]["transactional_id"] == "tx-20"
    assert (found["others"]["ids"], found["others"]["begun"], found["others"]["committed"]) == (7, 14, 14)
    assert found["total"]["begun"] == 2 * (views.TOP + 7) + 1
    assert "7 others" in as_html(document(lines))


def bounded(spark: Any, parts: Iterable[Iterable[str]], most: int) -> pa.Table:
    from twisted_kafka_spark.cells.shards import Merging
    from twisted_kafka_spark.pipeline import exchange

    shards = exchange.as_shards(spark.createDataFrame(cells(*parts)))
    table: pa.Table = exchange.as_cells(exchange.merged(shards, Merging(most=most), {})).toArrow()
    return table


def test_however_many_ids_there_are_a_limited_number_is_kept_by_name(spark: Any) -> None:
    parts = [
        [
            text
            for number in range(50)
            for text in [in_transaction("EndTxn", f"{part}-{number}", number, "committed", 5)] * (3 if number < 5 else 1)
        ]
        for part in range(2)
    ]
    table = bounded(spark, parts, 10)
    ids = table.filter(pa.compute.equal(table["kind"], "transactions"))["transactional_id"]
    assert len(ids.unique()) == 11
    rows = counted(table)
    assert sum(row["begun"] for row in rows) == sum(map(len, parts))
    assert {row["committed"] for row in rows[:-1]} == {3}
    assert rows[-1]["transactional_id"] is None


def test_an_id_that_has_a_name_in_a_part_of_the_log_only_is_not_reported_as_open(spark: Any) -> None:
    begins = [in_transaction("AddPartitionsToTxn", "rare", 0), line("Fetch", 0)]
    crowd = [
        in_transaction("EndTxn", f"other-{number}", 10, "committed", 5, time="2026-11-21T09:00:10.000Z")
        for number in range(3)
        for _ in range(2)
    ]
    end = in_transaction("EndTxn", "rare", 10, "committed", 5, time="2026-11-21T09:00:10.000Z")
    assert [row["open"] for row in counted(cells(begins)) if row["transactional_id"] == "rare"] == [1]
    rows = counted(bounded(spark, [begins, [*crowd, end]], 3))
    assert {row["transactional_id"] for row in rows} == {"rare", "other-0", "other-1", "other-2", None}
    assert sum(row["open"] for row in rows) == 0
    assert sum(row["committed"] for row in rows) == 7


def test_ids_that_are_left_out_of_the_log_are_counted_together() -> None:
    lines = [in_transaction("AddPartitionsToTxn", None, 0), in_transaction("EndTxn", None, 1, "committed", 5)]
    found = document(lines)["transactions"]
    assert found["producers"] == []
    assert (found["others"]["ids"], found["others"]["begun"]) == (0, 1)
    assert "others" in as_html(document(lines))


# findings

LATER_MS = 3_600_000


def findings(lines: list[str]) -> list[Finding]:
    tables = views.compute_for_findings(cells(lines))
    found = find(tables)
    assert [each.name for each in find_over_all(tables)] == [each.name for each in found]
    return found


def until(at_ms: int, *lines: str) -> list[str]:
    return [*lines, line("Fetch", 0, time=moment(at_ms))]


def ended(committed: int, **others: int) -> list[str]:
    outcomes = ["committed"] * committed + [name for name, count in others.items() for _ in range(count)]
    return [in_transaction("EndTxn", "tx", at, outcome, 5) for at, outcome in enumerate(outcomes)]


INIT, BEGIN, OLD_BEGIN = (
    in_transaction("InitProducerId", "tx", 0),
    in_transaction("AddPartitionsToTxn", "tx", 5),
    in_transaction("AddOffsetsToTxn", "tx", 5),
)
SLACK_MS = limits.HANGING_SLACK_US // 1000
UNKNOWN_MS = limits.UNKNOWN_TIMEOUT_US // 1000
CASES: dict[str, tuple[str, Callable[[], list[str]], Callable[[], list[str]]]] = {
    "decided, and refused by a partition": (
        "stuck-transaction",
        lambda: [in_transaction("AddPartitionsToTxn", "tx", 0), in_transaction("EndTxn", "tx", 60_000, "stuck", 5)],
        lambda: [in_transaction("EndTxn", "tx", 60_000, "stuck", 5), in_transaction("InitProducerId", "tx", 61_000)],
    ),
    "timed out": (
        "hanging-transaction",
        lambda: [in_transaction("EndTxn", "tx", 0, "timed-out", 60_000)],
        lambda: [in_transaction("EndTxn", "tx", 0, "committed", 60_000)],
    ),
    "still open": (
        "hanging-transaction",
        lambda: until(5 + 60_000 + SLACK_MS + 1, INIT, BEGIN),
        lambda: until(5 + 60_000 + SLACK_MS, INIT, BEGIN),
    ),
    "still open, of an unknown timeout": (
        "hanging-transaction",
        lambda: until(5 + UNKNOWN_MS + SLACK_MS + 1, BEGIN),
        lambda: until(5 + UNKNOWN_MS + SLACK_MS, BEGIN),
    ),
    "ended by a request whose line has no outcome": (
        "hanging-transaction",
        lambda: until(LATER_MS, BEGIN, in_transaction("EndTxn", "tx", 9, error="INVALID_TXN_STATE")),
        lambda: until(LATER_MS, BEGIN, in_transaction("EndTxn", "tx", 9)),
    ),
    "used again": (
        "hanging-transaction",
        lambda: until(LATER_MS, BEGIN, in_transaction("AddOffsetsToTxn", "tx", LATER_MS - 1, error="PRODUCER_FENCED")),
        lambda: until(LATER_MS, BEGIN, in_transaction("AddOffsetsToTxn", "tx", LATER_MS - 1)),
    ),
    "aborts": (
        "mostly-aborts",
        lambda: ended(5, aborted=4, fenced=1),
        lambda: ended(6, aborted=4, fenced=1),
    ),
    "few aborts": (
        "mostly-aborts",
        lambda: ended(0, aborted=limits.ABORTS_FLOOR),
        lambda: ended(0, aborted=limits.ABORTS_FLOOR - 1),
    ),
}


def test_exactly_the_incident_is_found() -> None:
    for title, (name, planted, quiet) in CASES.items():
        with case(title):
            (found,) = findings(planted())
            assert found.name == name
            assert found.evidence["transactional_id"] == "tx"
            assert found.where == "transaction.id = 'tx'"
            assert found.advice.endswith(".")
            assert findings(quiet()) == []


def test_the_finding_names_the_client_that_used_the_id_last_and_since_when_it_is_open() -> None:
    zombie = in_transaction("EndTxn", "tx", 9, error="PRODUCER_FENCED", client_id="zombie")
    (found,) = findings(until(LATER_MS, in_transaction("InitProducerId", "tx", 0, client_id="before"), BEGIN, zombie))
    assert (found.evidence["client_id"], found.first) == ("app", "2026-11-21T08:00Z")
    assert found.evidence["open and not used for s"] == 3600
    assert found.evidence["timeout s"] == 60


@pytest.mark.slow
def test_a_finding_about_an_open_transaction_is_reported_while_the_log_is_followed(spark: Any, tmp_path: Path) -> None:
    following = Following(spark, tmp_path / "rolled")
    following.batch(0, [INIT, BEGIN])
    following.batch(1, [line("Fetch", minute) for minute in range(1, 12)])
    following.batch(2, [line("Fetch", minute) for minute in range(12, 20)])
    assert [found["name"] for found in following.reported] == ["hanging-transaction"]


# the page


def test_the_page_has_a_part_about_transactions_if_there_are_any() -> None:
    lines = [*ended(3, aborted=2, fenced=1), in_transaction("EndTxn", "<b>", 50, "timed-out", 60_000)]
    lines += [in_transaction("AddPartitionsToTxn", "open", 60), in_transaction("EndTxn", "tx", 70, error="PRODUCER_FENCED")]
    found = document(lines)
    page = as_html(found)
    part = page[page.index('<section id="transactions">') :]
    part = part[: part.index("</section>")]
    assert "<h2>Transactions</h2>" in part
    assert "8 transactions, 1 of them open at the end" in part
    assert part.count("<table>") == 2
    assert part.count("<tr>") == (1 + 3) + (1 + 4)
    assert 'aria-label="committed 43%, aborted 29%, fenced 14%, timed-out 14%"' in part
    assert "&lt;b&gt;" in part
    assert 'href="#transactions"' in page
    assert "transactions: 8, 3 committed, 2 aborted, 1 fenced, 1 timed-out, 1 open" in as_text(found, width=200)
    without = document([line("Fetch", 1)])
    assert "<p>0 transactions.</p>" in as_html(without)
    assert "transactions" not in as_text(without)
