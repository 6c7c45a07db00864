"""Each scenario for a moment; ``python -m tests.stress`` takes longer, and a free-threaded interpreter has real concurrency."""

import pytest

from tests.stress.crew import Crew, restless
from tests.stress.scenarios import SCENARIOS
from tests.support.budget import share_of

SECONDS = share_of(200) / 1000
STARTS_A_BROKER = {"served"}


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.long] * (each in STARTS_A_BROKER)) for each in SCENARIOS])
def test_what_threads_share_holds_when_they_use_it_at_once(name: str) -> None:
    with restless():
        SCENARIOS[name](Crew(0, SECONDS))
