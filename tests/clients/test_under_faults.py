"""docs/testing-clients.md says what clients do under faults, here and with Apache Kafka."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.clients.failing_kafka import failing_kafka
from tests.clients.under_faults import BY_API, FaultyBroker, Outcomes, our_broker, outcomes

for client in ("aiokafka", "confluent_kafka", "kafka"):
    pytest.importorskip(client)

_PAGE = Path(__file__).parents[2] / "docs" / "testing-clients.md"
_SECTIONS = {"Produce": "A producer", "Fetch": "A consumer"}


def documented(api: str) -> Outcomes:
    """Return the page's table for an API."""
    section = _PAGE.read_text(encoding="utf-8").split(f"## {_SECTIONS[api]}\n")[1].split("\n## ")[0]
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", section, re.MULTILINE)
    )
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def compare(api: str, found: Outcomes) -> None:
    """Compare what was found, of all clients or of those that are here, with the page."""
    wanted = documented(api)
    for fault, row in found.items():
        assert row.items() <= wanted[fault].items(), fault


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("api", BY_API)
@pytest.mark.parametrize("faulty", [our_broker, pytest.param(failing_kafka, marks=pytest.mark.oracle)])
def test_clients_do_what_the_page_says(faulty: Callable[[], AbstractContextManager[FaultyBroker]], api: str) -> None:
    with faulty() as broker:
        found = outcomes(api, broker)
    assert list(found) == list(documented(api))
    compare(api, found)
