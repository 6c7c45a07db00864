"""The configuration that the options of a command line describe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted_kafka.config.broker_config import KafkaConfig, parse_overrides
from twisted_kafka.config.environment import settings_in
from twisted_kafka.config.properties import load_properties


def make_config(options: Mapping[str, Any], overrides: Sequence[str], environment: Mapping[str, str] = {}) -> KafkaConfig:
    """Return the configuration from the options and KEY=VALUE overrides; raises ConfigError.

    The options are ``config``, a file, ``data-dir``, ``listeners`` and ``broker-id``; an option that is not given is None.
    Variables of ``environment`` that are named for settings override the file.
    """
    properties = load_properties(options["config"]) if options["config"] else {}
    properties.update(settings_in(environment))
    properties.update(parse_overrides(overrides))
    if options["listeners"]:
        properties["listeners"] = options["listeners"]
    if options["broker-id"] is not None:
        properties["broker.id"] = options["broker-id"]
    data_dir = Path(options["data-dir"] or "kafka-data").absolute()
    if options["data-dir"] is not None or not ("log.dirs" in properties or "log.dir" in properties):
        properties["log.dirs"] = str(data_dir / "log")
    properties.setdefault("access.log.dir", str(data_dir / "access"))
    return KafkaConfig.from_properties(properties)
