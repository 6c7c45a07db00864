"""Which metrics clients shall push: the configs of a CLIENT_METRICS resource (KIP-714; Kafka: ``ClientMetricsConfigs``)."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import INT, LIST, MEDIUM, Between, TopicKey
from twisted_kafka.config.values import parse_value
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError

INTERVAL_MS: Final = "interval.ms"
METRICS: Final = "metrics"
MATCH: Final = "match"
ALL_METRICS: Final = "*"

CLIENT_METRICS_KEYS: Final = {
    key.name: key
    for key in (
        TopicKey(METRICS, LIST, (), None, MEDIUM, (), "Prefixes of the names of metrics that are wanted; * for all."),
        TopicKey(INTERVAL_MS, INT, 300_000, Between(100, 3_600_000), MEDIUM, (), "Time between two pushes of a client."),
        TopicKey(MATCH, LIST, (), None, MEDIUM, (), "Clients that it applies to: selector=regular expression, all must match."),
    )
}

SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client can be selected by."""

MAX_PATTERN_LENGTH: Final = 1000
"""Characters of one selector's regular expression."""


class ClientMetricsConfig(NamedTuple):
    """One subscription, parsed."""

    interval_ms: int
    metrics: tuple[str, ...]
    match: Mapping[str, re.Pattern[str]]

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> Self:
        """Read the texts; raises InvalidRequestError, or InvalidConfigurationError for a selector, one line."""
        values = {name: key.default for name, key in CLIENT_METRICS_KEYS.items()}
        for name, text in config.items():
            if name not in CLIENT_METRICS_KEYS:
                raise InvalidRequestError(f"Unknown client metrics config name: {name}")
            try:
                values[name] = parse_value(CLIENT_METRICS_KEYS[name], text)
            except ConfigError as error:
                raise InvalidRequestError(str(error)) from None
        interval_ms, metrics, match = values[INTERVAL_MS], values[METRICS], values[MATCH]
        assert isinstance(interval_ms, int)
        assert isinstance(metrics, tuple)
        assert isinstance(match, tuple)
        return cls(interval_ms, tuple(each for each in metrics if each), dict(_selector(each) for each in match if each))

    def applies_to(self, client: Mapping[str, str]) -> bool:
        """Tell whether every selector matches the whole of what the client says of itself."""
        return all(pattern.fullmatch(client.get(name, "")) for name, pattern in self.match.items())


def _selector(text: str) -> tuple[str, re.Pattern[str]]:
    name, equals, pattern = (each.strip() for each in text.partition("="))
    if not equals or name not in SELECTORS or not pattern or len(pattern) > MAX_PATTERN_LENGTH:
        allowed = f"selector=pattern with a selector of {', '.join(SELECTORS)}"
        raise InvalidConfigurationError(f"Invalid value {text!r} for {MATCH}: must be {allowed}")
    try:
        return name, re.compile(pattern)
    except re.error as error:
        raise InvalidConfigurationError(f"Invalid value {text!r} for {MATCH}: must be a regular expression ({error})") from None
