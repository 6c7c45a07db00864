"""The commands for the access log, ``report`` and others, which are in a separate distribution."""

import importlib
import sys
from collections.abc import Sequence
from typing import Final

COMMANDS: Final = {
    "report": "report on an access log, or on Apache Kafka's request log",
    "follow": "follow a log while it is written: rollups, and findings as they occur",
    "rollup": "aggregate a log into rollups, which report reads",
    "audit": "write logins, refusals and changes of a log as OCSF or CloudEvents",
    "demo": "write a synthetic day of an access log",
    "prepare": "make Spark start faster on this machine",
}
"""The commands with their help texts."""

EXIT_FAILED: Final = 1
_PACKAGE: Final = "twisted_kafka_spark"


def run(arguments: Sequence[str]) -> int:
    """Run one of the commands; return its exit status, or 1 if the distribution ``twisted-kafka-spark`` is not installed."""
    try:
        # Imported by name: the broker does not depend on it.
        cli = importlib.import_module(f"{_PACKAGE}.cli")
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        from twisted_kafka.system.installation import present_installation  # imports importlib.metadata, which takes long

        print(
            f"twisted-kafka: {arguments[0]} needs the package twisted-kafka-spark: {present_installation().command_for_report()}",
            file=sys.stderr,
        )
        return EXIT_FAILED
    status: int = cli.main(arguments, program="twisted-kafka")
    return status
