"""Settings with their sources and documentation."""

from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.system.numbers import INT32_MAX, decimal

TYPES: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
"""The resource types, by the names that commands and addresses have for them."""

SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_BUILT_IN: Final = 5
_OF_ONE_BROKER: Final = ("broker", "broker-logger")
_WITH_DOCUMENTATION: Final = 3
_KINDS: Final = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 8: "class", 9: "password"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a resource."""

    key: str
    value: str | None
    """None if it is secret, or has no value."""
    source: str
    is_default: bool
    is_read_only: bool
    is_secret: bool
    type: str
    """boolean, string, int, ...; empty if the broker does not report it."""
    documentation: str
    """Empty if the broker has none."""
    others: tuple[tuple[str, str | None, str], ...]
    """Key, value and source of the settings that apply where this one is not set, the strongest first."""


def settings(session: Session, kind: str, name: str) -> tuple[Setting, ...]:
    """Return the settings of a topic, a broker (by its id), a group, ..., by key. Raises CommandError."""
    node = decimal(name, INT32_MAX) if kind in _OF_ONE_BROKER else None
    if node is not None:
        session.retrying(lambda: session.metadata([]))
    is_new = session.version(DescribeConfigsRequest, node) >= _WITH_DOCUMENTATION
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TYPES[kind], resource_name=name, configuration_keys=None)],
        include_synonyms=True,
        include_documentation=is_new,
    )
    (result,) = session.retrying(lambda: session.ask(request, node)).results
    if result.error_code:
        raise problem(f"{kind} {name}", result.error_code, result.error_message)
    return tuple(
        Setting(
            each.name,
            each.value,
            SOURCES.get(each.config_source, ""),
            each.config_source == _BUILT_IN or each.is_default,
            each.read_only,
            each.is_sensitive,
            _KINDS.get(each.config_type, ""),
            each.documentation or "",
            tuple((one.name, one.value, SOURCES.get(one.source, "")) for one in each.synonyms[1:]),
        )
        for each in sorted(result.configs, key=lambda each: each.name)
    )
