"""``twisted-kafka serve``: runs a broker in the foreground, with the options and exit statuses of ``twistd --nodaemon kafka``."""

import sys
from collections.abc import Sequence

from twisted_kafka.start_up import SERVE_COMMAND, restart_interpreter


def serve(options: Sequence[str]) -> int:
    """Run twistd in this process, without a pid file.

    Returns 0 after a clean stop. Otherwise raises SystemExit, as twistd does.
    """
    restart_interpreter()
    from twisted.scripts import twistd

    sys.argv = [SERVE_COMMAND, "--nodaemon", "--pidfile=", "kafka", *options]
    twistd.run()  # type: ignore[no-untyped-call]
    return 0
