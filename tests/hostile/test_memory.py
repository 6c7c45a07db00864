"""A hostile client raises the memory of a broker with default settings by a bounded number of bytes, however much it sends."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.broker_under_attack import BrokerUnderAttack
from tests.hostile.forms import BEFORE_LOGIN, FORMS, MIB, abandoned_fetches, client_ids, header_tags, unknown_topics
from tests.support.cases import case

GIB = 1024 * MIB
MOST_BYTES = 200 * MIB
MOST_BEFORE_LOGIN_BYTES = 100 * MIB
QUICK_BYTES = 16 * MIB
MOST_QUICK_BYTES = 64 * MIB
"""A quarter of what client ids and abandoned fetches took before they were bounded."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak of another process's memory")


def grown_bytes(data: Path, form: Callable[..., Any], sasl: bool) -> int:
    broker = BrokerUnderAttack(data, sasl)
    try:
        return broker.endure(form, seed=1, budget_bytes=GIB)[1]
    finally:
        broker.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", FORMS, ids=lambda each: each.__name__)
def test_a_gigabyte_costs_little_memory(tmp_path: Path, form: Callable[..., Any]) -> None:
    assert grown_bytes(tmp_path / "data", form, sasl=False) <= MOST_BYTES


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", BEFORE_LOGIN, ids=lambda each: each.__name__)
def test_a_gigabyte_before_login_costs_less(tmp_path: Path, form: Callable[..., Any]) -> None:
    assert grown_bytes(tmp_path / "data", form, sasl=True) <= MOST_BEFORE_LOGIN_BYTES


@pytest.mark.slow
def test_what_clients_leave_behind_costs_little_memory(tmp_path: Path) -> None:
    broker = BrokerUnderAttack(tmp_path / "data")
    try:
        for form in (client_ids, header_tags, unknown_topics, abandoned_fetches):
            with case(form=form.__name__):
                assert broker.endure(form, seed=1, budget_bytes=QUICK_BYTES)[1] <= MOST_QUICK_BYTES
    finally:
        broker.stop()
