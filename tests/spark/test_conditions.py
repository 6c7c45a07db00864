"""`--filter` is checked before Spark starts."""

from pathlib import Path

import pytest

from twisted_kafka_spark.cli import main
from twisted_kafka_spark.records.conditions import check_condition


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "client_id = 'billing' AND exists(topics, t -> t.topic = 'orders')",
        'client_id = "billing"',
        "Client_ID <=> null",
        "`client_id` RLIKE 'a.*' OR error IS NOT NULL",
        "topics[0].topic = 'x' AND transaction.id LIKE 'pay%'",
        "aggregate(topics, 0, (a, t) -> a + t.bytes) > 5",
        "cast(total_us AS double) / 1000 > 3",
        "array_contains(transform(topics, x -> x.topic), 'a')",
        "time > date_format(current_timestamp() - INTERVAL 5 MINUTES, 'yyyy')",
        "true",
        "not (api in ('Fetch', 'Produce'))",
    ],
)
def test_conditions_of_spark_pass(condition: str) -> None:
    check_condition(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("clientid = 'x'", "--filter clientid = 'x': a record has no field clientid; did you mean client_id?"),
        ("exists(topic, t -> t.topic = 'x')", "did you mean topics?"),
        ("shoe_size > 3", "the fields are v, time, node, "),
        ("client_id = 'x", "a quote is not closed"),
        ("client_id = = 3", "this is not a condition in SQL, near = (column 13)"),
        ("client_id == 'x' && true", "this is not a condition in SQL, near && (column 19)"),
        ("1 = 1; DROP TABLE x", "this is not a condition in SQL, such as"),
        ("'x'", "this is not a condition in SQL, such as"),
    ],
)
def test_other_texts_are_explained_in_one_line(condition: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^--filter ") as raised:
        check_condition(condition)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "clientid = 1"], "a record has no field clientid"),
        (["--since", "garbage"], "'garbage' is not a time such as 2026-11-21T08:15, a date, or a duration such as 2h"),
        (["--until", "2026-13-01"], "'2026-13-01' is not a time"),
        (["--since", "1h", "--until", "2h"], "--since must be before --until"),
    ],
)
@pytest.mark.parametrize("command", ["report", "rollup"])
def test_a_wrong_selection_is_refused_before_spark_starts(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # Spark could not start
    (tmp_path / "access.jsonl").write_text("{}\n")
    assert main([command, str(tmp_path), "--out", str(tmp_path / "out"), *arguments]) == 1
    out, err = capfd.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
