"""``python -m tests.world.mutants``."""

import sys

from tests.world.mutants.command import main

sys.exit(main())
