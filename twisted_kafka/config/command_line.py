"""The configuration that a command line describes, and variables named as in Kafka's container image (KIP-975)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from twisted_kafka.config.broker_config import KafkaConfig, parse_overrides
from twisted_kafka.config.properties import load_properties

CONSOLE_ADDRESS: Final = "127.0.0.1:8080"
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


def make_config(options: Mapping[str, Any], overrides: Sequence[str], environment: Mapping[str, str] = {}) -> KafkaConfig:
    """Return the configuration from the options and KEY=VALUE overrides; raises ConfigError.

    The options are ``config``, a file, ``data-dir``, ``listeners`` and ``broker-id``; an option that is not given is None. If there
    is ``console``, the web console listens, at ``console.listener`` or ``CONSOLE_ADDRESS``.
    Variables of ``environment`` that are named for settings override the file.
    """
    properties = load_properties(options["config"]) if options["config"] else {}
    properties.update(settings_in(environment))
    properties.update(parse_overrides(overrides))
    if options["listeners"]:
        properties["listeners"] = options["listeners"]
    if options["broker-id"] is not None:
        properties["broker.id"] = options["broker-id"]
    if options.get("console") and not properties.get("console.listener"):
        properties["console.listener"] = CONSOLE_ADDRESS
    data_dir = Path(options["data-dir"] or "kafka-data").absolute()
    if options["data-dir"] is not None or not ("log.dirs" in properties or "log.dir" in properties):
        properties["log.dirs"] = str(data_dir / "log")
    properties.setdefault("access.log.dir", str(data_dir / "access"))
    return KafkaConfig.from_properties(properties)


def with_advice(message: str, options: Iterable[str]) -> str:
    """Return the text of a UsageError: for an unknown option, with the most similar one of ``options``, or how to list them."""
    if not message.endswith(" not recognized"):
        return message
    from difflib import get_close_matches

    wrong = message.split()[1].lstrip("-")
    near = get_close_matches(wrong, [each.rstrip("=") for each in options], 1)
    return f"{message}: {f'did you mean --{near[0]}?' if near else '--help lists the options'}"
