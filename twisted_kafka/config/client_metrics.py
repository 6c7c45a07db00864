"""The metrics that clients push: the configs of a CLIENT_METRICS resource (KIP-714; Kafka: ``ClientMetricsConfigs``)."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import INT, LIST, MEDIUM, Between, TopicKey
from twisted_kafka.config.values import parse_value
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError
from twisted_kafka.system.client_text import SHOWN_CHARACTERS, bounded_text

INTERVAL_MS: Final = "interval.ms"
METRICS: Final = "metrics"
MATCH: Final = "match"
ALL_METRICS: Final = "*"

CLIENT_METRICS_KEYS: Final = {
    key.name: key
    for key in (
        TopicKey(METRICS, LIST, (), None, MEDIUM, (), "Name prefixes of the metrics to push; * for all metrics."),
        TopicKey(INTERVAL_MS, INT, 300_000, Between(100, 3_600_000), MEDIUM, (), "Interval between two pushes of a client."),
        TopicKey(
            MATCH,
            LIST,
            (),
            None,
            MEDIUM,
            (),
            "The clients it applies to, as selector=regular expression; all selectors must match.",
        ),
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
"""The properties by which clients can be selected."""

_LONGEST: Final = {
    **dict.fromkeys(SELECTORS, SHOWN_CHARACTERS),
    **dict.fromkeys(("client_instance_id", "client_source_address", "client_source_port"), 64),
}
"""The most characters of each property."""

MOST_WAYS: Final = 30_000_000
"""Most ways to match a property: half a second of work for the whole process, if a client's name is made for it."""

MAX_PATTERN_LENGTH: Final = 1000
"""The maximum length of a selector's regular expression, in characters."""


_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def subscription_path(name: str) -> str:
    """Return where a subscription is kept below the configs; raise InvalidRequestError for a name that it cannot have."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidRequestError(f"The name of a subscription to client metrics is invalid: {bounded_text(name)!r}")
    return f"client-metrics/{name}"


class ClientMetricsConfig(NamedTuple):
    """A parsed subscription."""

    interval_ms: int
    metrics: tuple[str, ...]
    match: Mapping[str, re.Pattern[str]]

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> Self:
        """Parse the texts; raises InvalidRequestError, or InvalidConfigurationError for an invalid selector."""
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
        """Return whether every selector matches the whole value of the client's property."""
        return all(pattern.fullmatch(client.get(name, "")) for name, pattern in self.match.items())


def _selector(text: str) -> tuple[str, re.Pattern[str]]:
    from twisted_kafka.system.regular_expressions import most_ways  # a start needs none

    name, equals, pattern = (each.strip() for each in text.partition("="))
    if not equals or name not in SELECTORS or not pattern or len(pattern) > MAX_PATTERN_LENGTH:
        allowed = f"selector=pattern with a selector of {', '.join(SELECTORS)}"
        raise InvalidConfigurationError(f"Invalid value {text!r} for {MATCH}: must be {allowed}")
    try:
        compiled = re.compile(pattern)
        takes_too_long = most_ways(pattern, _LONGEST[name]) > MOST_WAYS
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidConfigurationError(f"Invalid value {text!r} for {MATCH}: must be a regular expression ({error})") from None
    if takes_too_long:
        raise InvalidConfigurationError(
            f"Invalid value {text!r} for {MATCH}: it may take minutes to match; repeat (* + {{m,n}}) three parts at most, and none "
            "that has a repetition or a choice in it"
        )
    return name, compiled
