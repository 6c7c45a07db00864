"""``python -m tests.world.hours``. Processes of a pool cannot import this module, so it has nothing of its own."""

import sys

from tests.world.hours.command import main

sys.exit(main())
