"""Lines that a wrong clock wrote: their times are corrected, and the report names the broker."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.spark.access_lines import line, moment
from twisted_kafka_spark.cells.clocks import Corrected, Skew, corrected
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.records.frame import concatenated
from twisted_kafka_spark.records.lines import LineReader

pytestmark = pytest.mark.timeout(600)
START_S = 1_795_248_000
"""2026-11-21 08:00 UTC."""
NOW_US = (START_S + 86_400) * 1_000_000
DAY_MS = 86_400_000
YEAR_2099_MS = (4_070_908_800 - START_S) * 1000
IN_1970_MS = -START_S * 1000


def read(*texts: str) -> Corrected:
    reader = LineReader()
    frames = list(reader.frames(pa.array([text.rstrip("\n") for text in texts])))
    return corrected(concatenated(frames), NOW_US)


def seconds(found: Corrected) -> list[float]:
    """Return the times after 08:00, in the order of the lines."""
    return [each / 1_000_000 - START_S for each in found.frame.time_us.tolist()]


def at(ms: int, sequence: int | None, node: int = 1) -> str:
    return line("Fetch", 0, time=moment(ms), node=node, **({} if sequence is None else {"sequence": sequence}))


def minutes(count: int, node: int = 1, first: int = 0) -> list[str]:
    return [at(60_000 * number, first + number, node) for number in range(count)]


@pytest.mark.parametrize("wrong_ms", [DAY_MS, YEAR_2099_MS, IN_1970_MS, -DAY_MS])
@pytest.mark.parametrize("place", [0, 10, 20])
def test_a_line_with_a_wrong_time_gets_one_between_its_neighbours(wrong_ms: int, place: int) -> None:
    lines = [at(60_000 * (number + (number >= place)), number + (number >= place)) for number in range(20)]
    lines.insert(place, at(wrong_ms, place))
    found = read(*lines)
    # Nothing shows that the first line is early, or the last one late, if it is less than a day.
    if (place, wrong_ms) in ((0, -DAY_MS), (20, DAY_MS)):
        assert not found.skews
        return
    expected = 60 * (place - 1) if place else 60
    assert seconds(found) == [
        *(60.0 * number for number in range(place)),
        expected,
        *(60.0 * number for number in range(place + 1, 21)),
    ]
    ((skew, count),) = found.skews.items()
    assert (skew, count) == (Skew(1, wrong_ms // 1000 - expected, START_S + expected), 1)


def test_consecutive_lines_keep_their_distances() -> None:
    wrong = [at(IN_1970_MS + 1000 * number, number) for number in range(5)]
    found = read(*wrong, *[at(60_000 + 1000 * number, 5 + number) for number in range(100)])
    assert seconds(found)[:6] == [60, 60, 60, 60, 60, 60]  # there is no room before the next line
    later = [at(YEAR_2099_MS + 1000 * number, 100 + number) for number in range(5)]
    found = read(*[at(1000 * number, number) for number in range(100)], *later, at(200_000, 105))
    assert seconds(found)[99:] == [99, 99, 100, 101, 102, 103, 200]
    assert list(found.skews.values()) == [5]


def test_each_broker_has_its_own_order() -> None:
    others = [at(3 * DAY_MS // 4 + 1000 * number, number, node=2) for number in range(30)]
    mine = minutes(30)
    found = read(*[text for pair in zip(mine, others, strict=True) for text in pair])
    assert not found.skews
    mine[20] = at(YEAR_2099_MS, 20)
    found = read(*mine, *others)
    assert [skew.node for skew in found.skews] == [1]


def test_lines_in_another_order_than_their_numbers_are_right() -> None:
    lines = minutes(200)
    random.Random(1).shuffle(lines)
    assert not read(*lines).skews
    lines[100] = at(YEAR_2099_MS, 300)
    assert list(read(*lines).skews.values()) == [1]


def test_a_pause_or_a_small_step_of_a_clock_changes_nothing() -> None:
    later = [at(DAY_MS // 2 + 1000 * number, 20 + number) for number in range(20)]
    back = [at(DAY_MS // 2 - 300_000 + 1000 * number, 40 + number) for number in range(20)]
    found = read(*minutes(20), *later, *back)
    assert not found.skews
    assert seconds(found)[-1] == DAY_MS // 2000 - 300 + 19


def test_numbers_that_begin_again_change_nothing() -> None:
    """Such as those of another cluster: the order of the numbers is not that of time."""
    assert not read(*minutes(50), *[at(DAY_MS // 2 + 60_000 * number, number) for number in range(50)]).skews


def test_a_log_that_is_in_the_future_as_a_whole_is_left_alone() -> None:
    lines = [at(400 * DAY_MS + 1000 * number, number) for number in range(50)]
    assert not read(*lines).skews
    assert not read(*lines, *minutes(20, first=100)).skews


def test_lines_without_numbers_are_corrected_only_between_others() -> None:
    lines = [at(60_000 * number, None) for number in range(30)]
    assert seconds(read(*lines[:15], at(YEAR_2099_MS, None), *lines[15:]))[14:17] == [840, 840, 900]
    earlier = [at(-DAY_MS + 60_000 * number, None) for number in range(30)]
    assert not read(*lines, *earlier).skews  # two files, one after the other
    assert not read(*[at(-3_600_000 + 60_000 * number, None) for number in range(70)], *lines).skews  # the end of summer time


@pytest.mark.parametrize("wrong_ms", [DAY_MS, YEAR_2099_MS, IN_1970_MS])
def test_a_report_names_the_broker_and_keeps_its_axis(spark: Any, tmp_path: Path, wrong_ms: int) -> None:
    lines = [*minutes(50), *minutes(50, node=2)]
    lines[10] = at(wrong_ms, 10)
    (tmp_path / "node-1-000001.jsonl").write_text("".join(lines))
    document = run(spark, Job(paths=[str(tmp_path)]))
    assert document["total"]["requests"] == 100
    assert (document["period"]["begin"], document["period"]["end"]) == ("2026-11-21T08:00", "2026-11-21T08:50")
    assert document["source"]["lines"] == {"read": 100, "skewed": 1}
    assert document["source"]["samples"] == {}
    (found,) = [each for each in document["findings"] if each["name"] == "clock-skew"]
    clock = {DAY_MS: "24 hours ahead", YEAR_2099_MS: "72 years ahead", IN_1970_MS: "57 years behind"}[wrong_ms]
    assert found["title"] == f"The clock of broker 1 was {clock} in 1 of its lines"
    assert found["evidence"] == {"broker": 1, "clock": clock, "lines": 1, "since": "2026-11-21T08:09Z"}
    merged = run(spark, Job(paths=[str(tmp_path)], rollup_out=str(tmp_path / "out")))
    assert merged["findings"] == document["findings"]
    assert run(spark, Job(paths=[str(tmp_path / "out")], is_merge=True))["findings"] == document["findings"]
