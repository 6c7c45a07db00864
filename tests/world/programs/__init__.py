"""Programs with a bug that clients of Kafka often have, each with its correct version. A test of a world runs either."""

from typing import Final

from tests.world.programs import consuming, producing, states
from tests.world.programs.common import Program

PROGRAMS: Final = (*consuming.PROGRAMS, *producing.PROGRAMS, *states.PROGRAMS)

__all__ = ["PROGRAMS", "Program"]
