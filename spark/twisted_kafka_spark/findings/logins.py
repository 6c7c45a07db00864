"""Findings about logins that fail: those of one cause together, whatever addresses they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells.security import LOGIN_ERRORS
from twisted_kafka_spark.findings.failures import main_value, several_values
from twisted_kafka_spark.findings.finding import (
    MOST_NAMED,
    Finding,
    Span,
    from_us,
    grouped,
    network_of,
    quoted,
    several,
    text,
    the_only,
)
from twisted_kafka_spark.findings.names import service_of
from twisted_kafka_spark.findings.runs import runs
from twisted_kafka_spark.records.kafka_names import OF_EACH_START

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Failures
    from twisted_kafka_spark.views import Row, Tables

_AT_ONCE_MINUTES, _SAME = 10, 0.6
"""How much the ends of failures of one cause differ; the share of the minutes that those of one service have in common."""


@dataclass(slots=True)
class _Failing:
    """Failed logins from an address, or from a network."""

    place: str
    is_network: bool
    rows: Failures
    first: int
    last: int

    @property
    def services(self) -> set[str]:
        return {service_of(name[0]) for name, _ in self.rows.top("client_id")}

    @property
    def errors(self) -> set[str]:
        return {name[0] for name, _ in self.rows.top("error")}


def failed_logins(tables: Tables) -> Iterator[Finding]:
    """Find addresses and networks from which logins fail, and many addresses that fail at the same time."""
    every = tables.grids.failures
    rows = every.chosen(every.where("error", *LOGIN_ERRORS))
    if not len(rows.minute):
        yield from _logins_without_minutes(tables)
        return
    found, told = [], set[str | None]()
    for (address,), count in rows.top("note"):
        if count >= limits.FAILED_LOGINS_FLOOR and address is not None:
            told.add(address)
            found.append(_failing(address, False, rows.chosen(rows.where("note", address))))
    rest = rows.chosen(~rows.where("note", *told))
    networks: dict[str, list[str]] = defaultdict(list)
    for address in {name[0] for name, _ in rest.top("note")}:
        if (network := network_of(address)) is not None:
            networks[network].append(address)
    for network, addresses in sorted(networks.items()):
        mine = rest.chosen(rest.where("note", *addresses))
        if len(addresses) > 1 and mine.requests.sum() >= limits.FAILED_LOGINS_FLOOR:
            told.update(addresses)
            found.append(_failing(network, True, mine))
    for together in grouped(found, lambda group, one: any(_is_one_cause(one, other, every.axis.length) for other in group)):
        yield _of_places(tables, rows, together)
    yield from _many_addresses(tables, rows.chosen(~rows.where("note", *told)))


def _failing(place: str, is_network: bool, rows: Failures) -> _Failing:
    return _Failing(place, is_network, rows, int(rows.minute.min()), int(rows.minute.max()))


def _is_one_cause(one: _Failing, other: _Failing, length: int) -> bool:
    """Return whether two places fail with the same errors, for one service or at once, though not both all the time."""
    if one.errors != other.errors or one.is_network != other.is_network:
        return False
    both = min(one.last, other.last) - max(one.first, other.first) + 1
    if one.services == other.services and both >= _SAME * max(one.last - one.first + 1, other.last - other.first + 1):
        return True
    is_all_day = min(one.last, other.last) - max(one.first, other.first) + 2 * _AT_ONCE_MINUTES >= length
    is_at_once = max(abs(one.first - other.first), abs(one.last - other.last)) <= _AT_ONCE_MINUTES
    return is_at_once and not is_all_day


def _of_places(tables: Tables, rows: Failures, together: list[_Failing]) -> Finding:
    if len(together) == 1:
        one = together[0]
        names = [name[0] for name, _ in one.rows.top("client_id")]
        of_client = f" ({names[0]})" if len(names) == 1 and names[0] and not one.is_network else ""
        return _login_finding(tables, one.rows, one.place + of_client, **{"network" if one.is_network else "address": one.place})
    notes = [name[0] for one in together for name, _ in one.rows.top("note")]
    mine = rows.chosen(rows.where("note", *notes))
    places = [one.place for one in together]
    if together[0].is_network:
        where = " and ".join(places) if len(places) == 2 else f"{len(places)} networks"
        return _login_finding(tables, mine, where, networks=several(places) or "")
    clients = [str(name[0]) for name, _ in mine.top("client_id")]
    named = ", ".join(sorted(clients)) if len(clients) <= MOST_NAMED else f"{len(clients)} clients"
    services = sorted({service for one in together for service in one.services})
    of = {"service": services[0]} if len(services) == 1 else {"services": several(services) or ""}
    return _login_finding(tables, mine, f"{named} at {len(places)} addresses", **of)


def _many_addresses(tables: Tables, rows: Failures) -> Iterator[Finding]:
    """Find failed logins that come from many addresses, or whose addresses are not known, within some time."""
    counts = rows.per_minute()
    for first, last in runs(counts > 0, gap=limits.LOGIN_GAP_MINUTES):
        inside = rows.chosen((rows.minute >= first) & (rows.minute <= last))
        if inside.requests.sum() < limits.FAILED_LOGINS_OF_ALL:
            continue
        if inside.requests.sum() < limits.FAILED_LOGINS_A_MINUTE * (last - first + 1):
            continue
        addresses = [name for name, _ in inside.top("note") if name[0] is not None]
        yield _login_finding(tables, inside, f"{len(addresses)} addresses" if addresses else "unknown addresses")


def _login_finding(tables: Tables, rows: Failures, where: str, **of: str) -> Finding:
    attempts = int(rows.requests.sum())
    addresses = [name[0] for name, _ in rows.top("note") if name[0] is not None]
    first, last = rows.axis.moment(int(rows.minute.min())), rows.axis.moment(int(rows.minute.max()))
    clients = [name[0] for name, _ in rows.top("client_id")]
    listeners = {row["listener"] or "-" for row in tables["login"] if row["note"] in addresses or not addresses}
    prefix = of.get("address")
    return Finding(
        "failed-logins",
        f"{attempts:,} logins from {where} failed, {text(first)} to {text(last)}",
        {
            "address": None,
            **of,
            "addresses": several_values(rows, "note"),
            "attempts": attempts,
            "client_id": the_only(clients),
            "clients": several_values(rows, "client_id"),
            "errors": ", ".join(sorted({name[0] for name, _ in rows.top("error")})),
            "listeners": ", ".join(sorted(listeners)),
            "node": main_value(rows, "node") if len(tables["node"]) > 1 else None,
        },
        (f"connection LIKE {quoted(f'%-{prefix}:%')}" if prefix else "error IN ('" + "', '".join(LOGIN_ERRORS) + "')")
        + f" AND {Span(first, last).where}",
        "Correct the client's credentials if it is yours (a password or token may have expired); otherwise block the addresses: "
        "connection.failed.authentication.delay.ms only slows guessing down.",
        text(first),
        text(last),
        float(attempts),
        {*OF_EACH_START},
        impact=f"{attempts:,} logins failed",
    )


def _logins_without_minutes(tables: Tables) -> Iterator[Finding]:
    """Find the same in a rollup of an earlier layout, which has no failures by minute."""
    by_address: dict[str | None, list[Row]] = defaultdict(list)
    for row in tables["login"]:
        by_address[row["note"]].append(row)
    for address, rows in by_address.items():
        attempts = sum(row["requests"] for row in rows)
        if address is None or attempts < limits.FAILED_LOGINS_FLOOR:
            continue
        yield Finding(
            "failed-logins",
            f"{attempts:,} logins from {address} failed",
            {"address": address, "attempts": attempts, "errors": ", ".join(sorted({row["error"] for row in rows}))},
            f"connection LIKE {quoted(f'%-{address}:%')}",
            "Correct its credentials, or block the address.",
            from_us(min(row["first_us"] for row in rows)),
            from_us(max(row["last_us"] for row in rows)),
            attempts,
        )
