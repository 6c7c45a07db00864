"""``twisted-kafka serve`` and ``cluster``: run ``twistd -n kafka`` or ``kafka-cluster``, with its options and exit status."""

import sys
from collections.abc import Sequence

from twisted_kafka.system.start_up import CLUSTER_COMMAND, SERVE_COMMAND, restart_interpreter


def cluster(options: Sequence[str]) -> int:
    """Run twistd in this process for ``twisted-kafka cluster``; as ``serve``."""
    return _run(CLUSTER_COMMAND, "kafka-cluster", options)


def serve(options: Sequence[str]) -> int:
    """Run twistd in this process, without a pid file.

    Returns 0 after a clean stop. Otherwise raises SystemExit, as twistd does.
    """
    restart_interpreter()
    return _run(SERVE_COMMAND, "kafka", options)


def _run(command: str, service: str, options: Sequence[str]) -> int:
    from twisted.scripts import twistd

    sys.argv = [command, "--nodaemon", "--pidfile=", service, *options]
    twistd.run()  # type: ignore[no-untyped-call]
    return 0
