"""Each finding in a small case that has it, and none in a similar case without it; folded without Spark."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa
import pyarrow.compute as pc

from tests.spark.access_lines import PHASES, line, topic
from tests.support.cases import case
from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.findings.finding import Finding, severity
from twisted_kafka_spark.pipeline.few import FewCells

USUAL_MINUTES = 20
FETCHES = limits.FETCHES_A_MINUTE
STORM = range(8, 11)
"""The minutes with the incident."""


def findings(lines: list[str]) -> list[Finding]:
    batches = list(Folding().of_lines([pa.record_batch({"value": pa.array(text.rstrip("\n") for text in lines)})]))
    return in_order(find(views.compute(pa.Table.from_batches(batches), MINUTE_S)))


def usual(api: str = "Produce", each: int = 10, **changes: Any) -> list[str]:
    return [text for minute in range(USUAL_MINUTES) for text in [line(api, minute, **changes)] * each]


def in_storm(api: str, each: int, **changes: Any) -> list[str]:
    return [text for minute in STORM for text in [line(api, minute, **changes)] * each]


def connecting(each: int) -> list[str]:
    return [
        line("ApiVersions", minute, connection=f"127.0.0.1:9092-127.0.0.1:{minute}-{number}")
        for minute in STORM
        for number in range(each)
    ]


def slow(phase: str, microseconds: int, api: str = "Produce") -> list[str]:
    phases = PHASES | {phase: microseconds}
    return in_storm(api, 10, **phases, total_us=sum(phases.values()))


def produced(requests: int, size: int, **changes: Any) -> list[str]:
    entry = {"topic": "orders", "partitions": 1, "records": 1, "bytes": size, "error": None}
    return [line("Produce", number % USUAL_MINUTES, topics=[entry], **changes) for number in range(requests)]


def fetched(requests: int, empty: int, each_minutes: int = USUAL_MINUTES) -> list[str]:
    return [line("Fetch", n % each_minutes, topics=[topic("orders", 0 if n < empty else 10)]) for n in range(requests)]


def fetching(empty_share: float) -> list[str]:
    empty = round(empty_share * FETCHES)
    return [
        text
        for minute in STORM
        for text in [line("Fetch", minute)] * empty + [line("Fetch", minute, topics=[topic("orders", 5)])] * (FETCHES - empty)
    ]


def skewed(share_of_one: float) -> list[str]:
    lines = produced(100, 100_000 if share_of_one > 0.8 else 1000)
    for number in range(limits.SKEW_TOPICS_FLOOR):
        entry = {"topic": f"t{number}", "partitions": 1, "records": 1, "bytes": 50_000, "error": None}
        lines += [line("Produce", 1, topics=[entry])]
    return lines


def on_partitions(of_last: int, of_others: int) -> list[str]:
    """Produce requests to the last partition of four, and to each of the others."""
    counts = [of_others] * 3 + [of_last]
    entries = [topic("orders", 100) | {"partition_ids": [number]} for number, count in enumerate(counts) for _ in range(count)]
    return [line("Produce", number % USUAL_MINUTES, topics=[entry]) for number, entry in enumerate(entries)]


def nodes(of_first: int, of_others: int) -> list[str]:
    """Fetches that return records, from enough clients that none causes a storm."""
    counts = {1: of_first, 2: of_others, 3: of_others}
    entry = topic("orders", 10)
    return [
        line("Fetch", n % 20, node=node, topics=[entry], client_id=f"c{n % 9}")
        for node, count in counts.items()
        for n in range(count)
    ]


def throttled(requests: int, seconds: float) -> list[str]:
    """As many requests in ten minutes, throttled for so long each, and a thousand on another connection that are not."""
    waits = PHASES | {"throttle_us": int(seconds * 1e6)}
    held = [line("Produce", n * 10 // requests, **waits, total_us=sum(waits.values())) for n in range(requests)]
    return held + [
        line("Fetch", n % 10, topics=[topic("orders", 5)], connection="127.0.0.1:9092-127.0.0.1:9-9") for n in range(1000)
    ]


def apart(requests: int, seconds: float) -> list[str]:
    """As `throttled`, each request on a connection that is much longer in use."""
    waits = PHASES | {"throttle_us": int(seconds * 1e6)}
    named = [{"connection": f"127.0.0.1:9092-127.0.0.1:{number}-0"} for number in range(requests)]
    held = [line("Produce", 0, **waits, **name, total_us=sum(waits.values())) for name in named]
    held += [line("Produce", minute, **name) for name in named for minute in (0, 59)]
    return held + [line("Fetch", n % 10, topics=[topic("orders", 5)]) for n in range(3000)]


IDLE = limits.IDLE_FETCHES_FLOOR
CASES: dict[str, tuple[str, Callable[[], list[str]], Callable[[], list[str]]]] = {
    "throttled most of the time": (
        "throttled-client",
        lambda: throttled(8, 50),
        lambda: throttled(8, 20),
    ),
    "throttled for much of all time": (
        "throttled-client",
        lambda: apart(31, 20),
        lambda: apart(29, 20),
    ),
    "throttled often": ("throttled-client", lambda: throttled(400, 0.05), lambda: throttled(400, 0.005)),
    "reconnects": (
        "reconnect-storm",
        lambda: connecting(limits.NEW_CONNECTIONS_FLOOR),
        lambda: connecting(limits.NEW_CONNECTIONS_FLOOR - 1),
    ),
    "fetches": (
        "fetch-storm",
        lambda: fetching(0.6),
        lambda: fetching(0.4),  # as many, but most bring something
    ),
    "commits": (
        "commit-flood",
        lambda: in_storm("OffsetCommit", limits.COMMITS_A_MINUTE),
        lambda: in_storm("OffsetCommit", limits.COMMITS_A_MINUTE - 1),
    ),
    "tiny batches": (
        "tiny-batches",
        lambda: produced(limits.TINY_BATCHES_FLOOR, limits.TINY_BATCH_BYTES - 1),
        lambda: produced(limits.TINY_BATCHES_FLOOR, limits.TINY_BATCH_BYTES),
    ),
    "few tiny batches": (
        "tiny-batches",
        lambda: produced(limits.TINY_BATCHES_FLOOR, 70),
        lambda: produced(limits.TINY_BATCHES_FLOOR - 1, 70),
    ),
    "idle": ("idle-poller", lambda: fetched(IDLE, IDLE - 5), lambda: fetched(IDLE, IDLE - 20)),
    "slow follower": ("slow-follower", lambda: usual() + slow("remote_us", 60_000), lambda: usual() + slow("remote_us", 900)),
    "busy threads": (
        "busy-threads",
        lambda: usual() + slow("request_queue_us", 60_000),
        lambda: usual() + slow("request_queue_us", 900),
    ),
    "slow disk for what is usual on it": (
        "slow-disk",
        lambda: usual(local_us=200) + slow("local_us", 4_000),
        lambda: usual(local_us=200) + slow("local_us", 1_500),
    ),
    "slow disk": (
        "slow-disk",
        lambda: usual() + slow("local_us", 60_000),
        lambda: usual(local_us=60_000) + slow("local_us", 60_000),
    ),
    "busy network": ("busy-network", lambda: usual() + slow("response_queue_us", 60_000), usual),
    "slow readers": ("slow-readers", lambda: usual() + slow("send_us", 60_000), usual),
    "hot topic": ("hot-topic", lambda: skewed(0.95), lambda: skewed(0.1)),
    "hot partition": ("hot-partition", lambda: on_partitions(1500, 500), lambda: on_partitions(1490, 500)),
    "few requests to a partition": ("hot-partition", lambda: on_partitions(1000, 10), lambda: on_partitions(999, 10)),
    "hot broker": ("hot-broker", lambda: nodes(9_000, 600), lambda: nodes(4_000, 3_200)),
    "old client": ("old-client", lambda: [line("Produce", 1, version=2)], lambda: [line("Produce", 1, version=3)]),
    "old fetch": ("old-client", lambda: [line("Fetch", 1, version=3)], lambda: [line("Fetch", 1, version=4)]),
    "rebalances": (
        "rebalance-storm",
        lambda: in_storm("JoinGroup", limits.REBALANCES_A_MINUTE),
        lambda: in_storm("JoinGroup", limits.REBALANCES_A_MINUTE - 10),
    ),
    "metadata": (
        "metadata-storm",
        lambda: in_storm("Metadata", limits.METADATA_A_MINUTE),
        lambda: in_storm("Metadata", limits.METADATA_A_MINUTE - 1),
    ),
    "peak": ("traffic-peak", lambda: usual() + in_storm("ListOffsets", 250), lambda: usual() + in_storm("ListOffsets", 150)),
}


def one_of_each_finding() -> list[Any]:
    """Return the titles of all cases. Those after the first one of a finding are slow."""
    first = {name: title for title, (name, *_) in reversed(CASES.items())}
    return [pytest.param(title, marks=[pytest.mark.slow] * (title != first[name])) for title, (name, *_) in CASES.items()]


@pytest.mark.parametrize("title", one_of_each_finding())
def test_exactly_the_incident_is_found(title: str) -> None:
    name, planted, _ = CASES[title]
    found = findings(planted())
    assert [each.name for each in found] == [name]
    assert found[0].evidence
    assert found[0].where
    assert found[0].advice.endswith(".")


@pytest.mark.slow
def test_no_finding_below_the_threshold() -> None:
    for title, (_, _, quiet) in CASES.items():
        with case(title):
            assert [each.name for each in findings(quiet())] == []


def test_a_storm_of_one_minute_is_not_a_finding() -> None:
    assert findings([line("Metadata", 3) for _ in range(limits.METADATA_A_MINUTE * 2)]) == []


def test_the_finding_has_its_span() -> None:
    (found,) = findings(in_storm("Metadata", limits.METADATA_A_MINUTE))
    assert (found.first, found.last) == ("2026-11-21T08:08Z", "2026-11-21T08:10Z")
    assert found.evidence["minutes"] == len(STORM)
    assert found.evidence["maximum per minute"] == limits.METADATA_A_MINUTE


def test_what_is_slow_for_all_apis_is_one_finding_though_each_api_has_few_requests() -> None:
    apis = ("Produce", "OffsetCommit", "Metadata", "ListOffsets", "Heartbeat")
    quiet = [text for api in apis for text in usual(api, 3, local_us=200)]
    slower = [text for api in apis for text in in_storm(api, 3, local_us=5_000)]
    assert findings(quiet) == []
    (found,) = findings(quiet + slower)
    assert (found.name, found.evidence["api"], found.evidence["usual, ms"]) == ("slow-disk", "all", 0.2)
    assert (found.first, found.last) == (f"2026-11-21T08:{STORM[0]:02}Z", f"2026-11-21T08:{STORM[-1]:02}Z")


def test_more_requests_of_an_api_that_is_slow_by_nature_are_no_slow_minutes() -> None:
    lines = usual("Produce", 20, local_us=100) + usual("CreateTopics", 1, local_us=8_000)
    assert findings(lines + in_storm("CreateTopics", 7, local_us=8_000)) == []


def test_a_minute_with_few_requests_does_not_divide_slow_minutes() -> None:
    quiet = [line("Produce", minute, local_us=200) for minute in range(USUAL_MINUTES) for _ in range(10)]
    slower = [line("Produce", 20 + at, local_us=30_000) for at in range(7) for _ in range(1 if at == 3 else 12)]
    left = [text for text in quiet if not any(f"T08:{20 + at:02}" in text for at in range(7))]
    (found,) = findings(left + slower)
    assert (found.first, found.last) == ("2026-11-21T08:20Z", "2026-11-21T08:26Z")


def test_a_rebalance_storm_names_the_group_of_its_time() -> None:
    before = [line("JoinGroup", 1, v=2, group_id="other", member_id="m", generation=1)] * 39
    storm = in_storm("JoinGroup", 40, v=2, group_id="mine", member_id="m", generation=1)
    storm += in_storm("SyncGroup", 39, v=2, group_id="second", member_id="m", generation=1)
    (found,) = findings(usual() + before + storm)
    assert "continuous rebalances of group mine," in found.title
    assert (found.evidence["group_id"], found.evidence["client_id"]) == ("mine", "app")


def test_members_with_names_of_their_own_make_a_storm_of_their_group() -> None:
    storm = [
        text
        for member in range(8)
        for api in ("JoinGroup", "SyncGroup")
        for text in in_storm(api, 8, v=2, client_id=f"app-{member}", group_id="mine", member_id=f"m{member}", generation=1)
    ]
    (found,) = findings(usual() + storm)
    assert (found.name, found.evidence["group_id"], found.evidence["clients"][:2]) == ("rebalance-storm", "mine", "8:")


def test_what_is_critical_comes_first() -> None:
    lines = (
        usual() + in_storm("Metadata", limits.METADATA_A_MINUTE) + in_storm("ListOffsets", 250) + [line("Produce", 1, version=2)]
    )
    lines += slow("local_us", 60_000) + ["torn\n"] * len(lines)
    assert [(severity(each.name), each.name) for each in findings(lines)] == [
        ("critical", "slow-disk"),
        ("critical", "unreadable-lines"),
        ("warning", "metadata-storm"),
        ("warning", "old-client"),
        ("notice", "traffic-peak"),
    ]


def test_findings_of_each_day_of_a_long_period_have_their_severity() -> None:
    lines = []
    for day in ("18", "19", "20"):
        each = usual() + (slow("local_us", 60_000) if day == "19" else [])
        lines += [text.replace("2026-11-21T", f"2026-11-{day}T") for text in each]
    batch = pa.record_batch({"value": pa.array(text.rstrip("\n") for text in lines)})
    cells = pa.Table.from_batches(Folding().of_lines([batch]))
    few = FewCells.of_tables([("traffic", cells.filter(pc.equal(cells["kind"], "traffic")))])
    assert few is not None
    assert few.sizes.is_long
    (found,) = few.findings_by_day()
    assert (found.name, found.first) == ("slow-disk", "2026-11-19T08:08Z")
    assert found.as_values()["severity"] == "critical"


def test_joins_syncs_and_leaves_that_are_few_each_are_a_storm_together() -> None:
    storm = [text for api in limits.REBALANCE_APIS for text in in_storm(api, limits.REBALANCES_A_MINUTE // 3 + 1)]
    assert [each.name for each in findings(usual() + storm)] == ["rebalance-storm"]
