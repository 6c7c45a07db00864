"""``twisted-kafka configs``: show and change the settings of topics, brokers, loggers, groups and client metrics."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.settings import SOURCES, TYPES
from twisted_kafka.protocol.messages.administration.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.tools.admin.arguments import action, pairs, several
from twisted_kafka.tools.admin.output import Output

DEFAULT: Final = "default"
"""The name of the settings of all brokers."""

_BUILT_IN: Final = (-1, 5)
_OF_ONE_BROKER: Final = ("broker", "broker-logger")
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_WITH_DOCUMENTATION: Final = 3
_WITH_TYPES: Final = 1


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list the groups and client metrics that have settings (Kafka 4.1 or newer)", _list)
    one.add_argument("type", choices=("client-metrics", "group"))
    one = action(commands, "describe", "show settings", _describe)
    one.add_argument("type", choices=tuple(TYPES))
    several(
        one, "names", "NAME", "a topic or pattern, a broker's id, 'default' for all brokers, ... [default: all topics or brokers]"
    )
    one.add_argument("-k", "--key", action="append", metavar="KEY", help="only this setting; may be repeated")
    one.add_argument("-a", "--all", action="store_true", help="also settings with their default values")
    one.add_argument("--documentation", action="store_true", help="describe each setting")
    one = action(commands, "alter", "change settings while the brokers run", _alter)
    one.add_argument("type", choices=tuple(TYPES))
    several(one, "names", "NAME", "a topic or pattern, a broker's id, 'default' for all brokers, ...", least=1)
    one.add_argument(
        "-s", "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key; may be repeated, like the next options"
    )
    one.add_argument("-d", "--delete", action="append", default=[], metavar="KEY", help="use the default again")
    one.add_argument("--append", action="append", default=[], metavar="KEY=VALUE", help="add to a list")
    one.add_argument("--subtract", action="append", default=[], metavar="KEY=VALUE", help="remove from a list")
    one.add_argument("--dry-run", action="store_true", help="only check whether it could be done")


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    if session.version(ListConfigResourcesRequest) < (_WITH_TYPES if options.type != "client-metrics" else 0):
        raise CommandError(
            f"the broker cannot list the settings of each {options.type}: name one with configs describe {options.type} NAME"
        )
    response = session.retrying(lambda: session.ask(ListConfigResourcesRequest(resource_types=[TYPES[options.type]])))
    if response.error_code:
        raise problem(f"the settings of each {options.type}", response.error_code)
    output.rows(["name"], [{"type": options.type, "name": each.resource_name} for each in response.config_resources])


def _names(session: Session, kind: str, names: Sequence[str]) -> list[str]:
    if kind == "topic":
        return [str(topic.name) for topic in session.topics(names)]
    if kind in _OF_ONE_BROKER:
        session.retrying(lambda: session.metadata([]))
        found = list(names) or [str(node) for node in sorted(session.brokers)]
        for name in found:
            if name != DEFAULT and decimal(name, INT32_MAX) not in session.brokers:
                known = ", ".join(map(str, sorted(session.brokers)))
                raise CommandError(f"there is no broker {name!r}: the cluster has {known}, and {DEFAULT!r} means all")
        return found
    if not names:
        raise ValueError(f"name a {kind}")
    return list(names)


def _node(kind: str, name: str) -> int | None:
    """Return the broker to ask: a broker itself has its settings."""
    return int(name) if kind in _OF_ONE_BROKER and name != DEFAULT else None


def _settings(session: Session, kind: str, name: str, keys: list[str] | None, *, with_documentation: bool = False) -> list[Any]:
    resource = DescribeConfigsResource(
        resource_type=TYPES[kind], resource_name="" if name == DEFAULT and kind == "broker" else name, configuration_keys=keys
    )
    node = _node(kind, name)
    is_new = session.version(DescribeConfigsRequest, node) >= _WITH_DOCUMENTATION
    request = DescribeConfigsRequest(resources=[resource], include_documentation=with_documentation and is_new)
    (result,) = session.retrying(lambda: session.ask(request, node)).results
    if result.error_code:
        raise problem(f"{kind} {name}", result.error_code, result.error_message)
    return sorted(result.configs, key=lambda each: each.name)


def _describe(options: argparse.Namespace, session: Session, output: Output) -> None:
    rows: list[dict[str, Any]] = []
    for name in _names(session, options.type, options.names):
        found = _settings(session, options.type, name, options.key, with_documentation=options.documentation)
        missing = sorted(set(options.key or ()) - {each.name for each in found})
        if missing:
            known = (each.name for each in _settings(session, options.type, name, None))
            raise unknown(f"setting of a {options.type}", missing[0], known, "configs describe --all lists them")
        shows_all = options.all or options.key or options.type == "broker-logger"
        rows += [_row(options.type, name, each) for each in found if shows_all or not _is_built_in(each)]
    if options.documentation:
        output.rows(["name", "key", "value", "documentation"], rows)
    else:
        output.rows(["name", "key", "value", "source", "read_only"], rows)


def _is_built_in(setting: Any) -> bool:
    return setting.config_source in _BUILT_IN and (setting.config_source > 0 or setting.is_default)


def _row(kind: str, name: str, setting: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "key": setting.name,
        "value": "(hidden)" if setting.is_sensitive and setting.value is None else setting.value,
        "source": SOURCES.get(setting.config_source),
        "read_only": setting.read_only,
        **({"documentation": setting.documentation} if setting.documentation else {}),
    }


def _alter(options: argparse.Namespace, session: Session, output: Output) -> None:
    changes = [
        *((_SET, key, value) for key, value in pairs(options.set, "--set").items()),
        *((_DELETE, key, None) for key in options.delete),
        *((_APPEND, key, value) for key, value in pairs(options.append, "--append").items()),
        *((_SUBTRACT, key, value) for key, value in pairs(options.subtract, "--subtract").items()),
    ]
    if not changes:
        raise ValueError("nothing to change: use --set, --delete, --append or --subtract")
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=kind, value=value) for kind, key, value in changes
    ]
    for name in _names(session, options.type, options.names):
        try:
            _alter_one(options, session, name, configs)
        except CommandError as error:
            output.problem(error)
            continue
        output.done(
            f"{options.type} {name} {'could be' if options.dry_run else 'was'} changed",
            type=options.type,
            name=name,
            action="checked" if options.dry_run else "altered",
        )


def _alter_one(
    options: argparse.Namespace, session: Session, name: str, configs: Sequence[IncrementalAlterConfigsRequestAlterableConfig]
) -> None:
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=TYPES[options.type],
        resource_name="" if name == DEFAULT and options.type == "broker" else name,
        configs=list(configs),
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=options.dry_run)

    def step() -> None:
        (result,) = session.ask(request, _node(options.type, name)).responses
        if result.error_code:
            _check_keys(session, options.type, name, (each.name for each in configs))
            raise problem(f"{options.type} {name}", result.error_code, result.error_message)

    session.retrying(step)


def _check_keys(session: Session, kind: str, name: str, keys: Iterable[str]) -> None:
    """Raise CommandError for a key that does not exist."""
    if kind not in ("topic", "broker"):
        return
    some = str(min(session.brokers)) if name == DEFAULT else name
    known = {each.name: each for each in _settings(session, kind, some, None)}
    for key in keys:
        if key.startswith("listener.name."):
            continue
        if key not in known:
            raise unknown(f"setting of a {kind}", key, known, f"twisted-kafka configs describe {kind} {name} --all lists them")
        if known[key].read_only:
            raise CommandError(f"{key} cannot change while the broker runs: set it in server.properties, and restart the broker")
