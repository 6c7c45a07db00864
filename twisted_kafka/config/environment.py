"""Settings in environment variables, named as in Apache Kafka's container image (KIP-975)."""

import re
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "KAFKA_"
_FOR_SCRIPTS: Final = re.compile(r"KAFKA_(VERSION|HEAP_OPTS|OPTS|.*_OPTS|JMX_.*|LOG4J_.*|TOOLS_LOG4J_.*)")
"""Variables for the scripts around Kafka's JVM, which are no settings of a broker."""
_SEPARATORS: Final = {"_": ".", "__": "_", "___": "-"}


def settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by Kafka's names.

    ``KAFKA_LOG_RETENTION_HOURS`` is ``log.retention.hours``; two underscores stand for one, three for a hyphen. Empty variables,
    usually unset ones that were passed on, and those for the JVM are left out.
    """
    return {
        _key(name): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value and not _FOR_SCRIPTS.fullmatch(name)
    }


def _key(name: str) -> str:
    return re.sub("_+", lambda found: _SEPARATORS.get(found[0], found[0]), name.removeprefix(PREFIX)).lower()
