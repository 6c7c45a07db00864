"""Which slow spans have one cause: those of a broker, of its clients, of services at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.findings.finding import enclosing, grouped
from twisted_kafka_spark.findings.names import service_and_account
from twisted_kafka_spark.findings.slow.phases import Slowness, is_inside

if TYPE_CHECKING:
    from twisted_kafka_spark.findings.slow.brokers import Brokers
    from twisted_kafka_spark.findings.slow.clients import Clients

_SEVERAL_SERVICES = 3
"""Services that are slow at the same time if none of them is the cause."""
_SAME_SPAN, _SAME_MINUTES = 0.7, 10
"""The share of the time of two spans that they have in common if they have one cause, or the most minutes that only one has."""


def without_place(one: Slowness, brokers: Brokers, clients: Clients, found: list[Slowness]) -> Slowness:
    """Return a slowness of a broker as one of no broker, if it is that of slow clients, which are so elsewhere, too."""
    if one.node is None or len(brokers.nodes) < 2:
        return one
    around = [each for each in found if each.client is not None and is_inside(one.span, each.span)]
    around = [each for each in around if brokers.place(each.span) != one.node]
    whose = clients.service_behind(one.span) if around else None
    return one._replace(node=None) if whose in {_service(each) for each in around} else one


def of_one_cause(found: list[Slowness], brokers: Brokers) -> list[list[Slowness]]:
    """Group what overlaps in time. Different brokers, or clients, belong together only if their spans are much the same.

    Clients that are slow while a broker is, and nearly only then, suffer from it.
    """
    groups = grouped(sorted((one for one in found if one.node is not None), key=lambda one: one.span.first), _belongs)
    others = []
    for one in sorted((one for one in found if one.node is None), key=lambda one: (one.client is None, one.span.first)):
        suffers = next((group for group in groups if _suffers(one, group, brokers)), None)
        if suffers is None:
            others.append(one)
        else:
            suffers.append(one)
    return [*groups, *_without_parts(grouped(others, _belongs))]


def _belongs(group: list[Slowness], one: Slowness) -> bool:
    return any(one.span.common_minutes(other.span) for other in group) and all(_is_compatible(one, other) for other in group)


def _is_compatible(one: Slowness, other: Slowness) -> bool:
    of_nodes = one.node is not None and other.node is not None and one.node != other.node
    of_clients = one.client is not None and other.client is not None and _service(one) != _service(other)
    if not (of_nodes or of_clients):
        return True
    both, whole = one.span.common_minutes(other.span), enclosing((one.span, other.span)).length_minutes
    return both >= _SAME_SPAN * whole or both >= whole - _SAME_MINUTES


def _suffers(one: Slowness, group: list[Slowness], brokers: Brokers) -> bool:
    """Return whether a client, or all, are slow mostly while a broker is, and because of that broker."""
    of_brokers = [each for each in group if each.node is not None]
    if not is_inside(one.span, enclosing(each.span for each in of_brokers)):
        return False
    return brokers.place(one.span) in {None, *(each.node for each in of_brokers)}


def _without_parts(groups: list[list[Slowness]]) -> list[list[Slowness]]:
    """Join the slowness of one service to that of several at the same time: it has the same cause."""
    of_many = [group for group in groups if len(_services(group)) >= _SEVERAL_SERVICES]
    kept = [*of_many]
    for group in groups:
        if group in of_many:
            continue
        span = enclosing(one.span for one in group)
        wholes = of_many if len(_services(group)) == 1 else []
        whole = next((each for each in wholes if is_inside(span, enclosing(one.span for one in each))), None)
        if whole is None:
            kept.append(group)
        else:
            whole.extend(group)
    return kept


def _services(group: list[Slowness]) -> set[tuple[str, Any]]:
    return {_service(one) for one in group if one.client is not None}


def _service(one: Slowness) -> tuple[str, Any]:
    assert one.client is not None
    return service_and_account(one.client)
