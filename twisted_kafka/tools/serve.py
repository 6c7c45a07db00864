"""``twisted-kafka serve`` and ``cluster``: run ``twistd -n kafka`` or ``kafka-cluster``, with its options and exit status."""

import sys
from collections.abc import Sequence

from twisted_kafka.system.platform import HAS_DAEMONS
from twisted_kafka.system.start_up import CLUSTER_COMMAND, SERVE_COMMAND, restart_interpreter


def cluster(options: Sequence[str]) -> int:
    """Run twistd in this process for ``twisted-kafka cluster``; as ``serve``."""
    if not HAS_DAEMONS:
        sys.exit(f"{CLUSTER_COMMAND}: Windows cannot tie processes to each other: run it in WSL, or a cluster of the testing kit")
    return _run(CLUSTER_COMMAND, "kafka-cluster", options)


def serve(options: Sequence[str]) -> int:
    """Run twistd in this process, without a pid file.

    Returns 0 after a clean stop. Otherwise raises SystemExit, as twistd does.
    """
    restart_interpreter()
    return _run(SERVE_COMMAND, "kafka", options)


def _run(command: str, service: str, options: Sequence[str]) -> int:
    from twisted.scripts import twistd

    # On Windows twistd has neither daemons nor pid files.
    sys.argv = [command, "--nodaemon", *(["--pidfile="] if HAS_DAEMONS else []), service, *options]
    twistd.run()  # type: ignore[no-untyped-call]
    return 0
