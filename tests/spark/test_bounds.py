"""Of many names, those with the most of a measure are kept, whatever the cells' order; sums stay exact."""

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from twisted_kafka_spark.cells import bounds


def client_cells(seed: int, clients: int = 60) -> Any:
    """Return merged cells of clients with random amounts, of which many are equal."""
    chosen = random.Random(seed)
    rows = [
        {
            "client_id": f"client-{number % 40}" if number else None,
            "principal": f"User:{number}" if number else "",
            "api": api,
            "requests": chosen.randrange(1, 9),
            "failed": chosen.randrange(2),
            "total_us": chosen.randrange(5),
        }
        for number in range(clients)
        for api in ("Fetch", "Produce")
    ]
    chosen.shuffle(rows)
    schema = bounds.schema("clients")
    return pa.Table.from_pylist(rows, schema)


def amounts(table: Any, measure: str) -> dict[tuple[Any, ...], int]:
    """Return the sums of a measure by name."""
    found: dict[tuple[Any, ...], int] = {}
    for row in table.to_pylist():
        if not row["others"]:
            name = row["client_id"], row["principal"]
            found[name] = found.get(name, 0) + (row[measure] or 0)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_names_with_the_most_are_kept_and_equal_ones_by_name(seed: int) -> None:
    table = client_cells(seed)
    expected = set()
    for measure in ("requests", "failed", "total_us"):
        whole = {name: amount for name, amount in amounts(table, measure).items() if amount}
        by_text = {name: ["\x1e" if each is None else each for each in name] for name in whole}
        expected |= set(sorted(whole, key=lambda name: (-whole[name], by_text[name]))[:5])
    found = bounds.bounded("clients", table, 5)
    assert set(amounts(found, "requests")) == expected
    for measure in ("requests", "failed", "total_us"):
        assert pa.compute.sum(found[measure]) == pa.compute.sum(table[measure])
        kept = amounts(found, measure)
        assert kept == {name: amounts(table, measure)[name] for name in kept}
    others = [row for row in found.to_pylist() if row["others"]]
    assert sorted(row["api"] for row in others) == ["Fetch", "Produce"]
    assert {row["client_id"] for row in others} == {None}
    again = bounds.bounded("clients", found.take(list(range(found.num_rows - 1, -1, -1))), 5)
    assert amounts(again, "requests") == amounts(found, "requests")


def test_few_names_stay_as_they_are() -> None:
    table = client_cells(1)
    assert bounds.bounded("clients", table, 60).equals(table)
    assert bounds.bounded("traffic", bounds.own("traffic", table), 1).num_rows == table.num_rows


def test_tables_that_come_one_after_another_are_merged() -> None:
    merger = bounds.Merger("clients")
    for seed in range(4):
        merger.add(client_cells(seed))
    found = merger.whole()
    assert found.num_rows == client_cells(0).num_rows
    assert pa.compute.sum(found["requests"]).as_py() == sum(
        pa.compute.sum(client_cells(seed)["requests"]).as_py() for seed in range(4)
    )


def test_the_reasons_of_lines_without_a_record_are_kept_and_the_first_sample_of_each() -> None:
    rows: list[dict[str, Any]] = [{"error": "read", "note": None, "requests": 900}]
    for reason in ("foreign", "garbled"):
        rows += [{"error": reason, "note": f"{reason} {number:02}", "requests": 1 + number} for number in range(20)]
    found = bounds.bounded("lines", pa.Table.from_pylist(rows, bounds.schema("lines")), 3).to_pylist()
    counts = {reason: sum(row["requests"] for row in found if row["error"] == reason) for reason in {row["error"] for row in found}}
    assert counts == {"read": 900, "foreign": 210, "garbled": 210}
    for reason in ("foreign", "garbled"):
        assert min(row["note"] for row in found if row["error"] == reason and row["note"]) == f"{reason} 00"
