"""Findings about failing requests: bursts, clients that fail for long, and refusals by the authorizer."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.cells.security import LOGIN_ERRORS, OTHER_REFUSALS, TOPIC_REFUSAL
from twisted_kafka_spark.findings.finding import MINUTE, Finding, Span, equal, spans, text, unusual
from twisted_kafka_spark.findings.names import owner_of
from twisted_kafka_spark.findings.runs import Run, runs, span_of

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Failures, Grid
    from twisted_kafka_spark.views import Tables

Minutes = dict[datetime.datetime, float]
REFUSALS = (TOPIC_REFUSAL, *OTHER_REFUSALS)
_MOSTLY = 0.5
"""The share of the failed requests that names their sender and their subject."""
_NEARLY_ALL = 0.9
"""The share of the failed requests that names their broker: a client with a few partitions sends most of its requests to one."""
_ALONE = 0.8
"""The share of the requests with an error that one account has if nobody else has it."""
_RARE = 0.1
_CUT_OFF = 0.7
"""The share of a client's requests that are refused if it has lost a right."""
_SAME = 0.6
"""The share of a finding's minutes, or requests, that another one must have to be about the same."""
_SHORT_GAP, _LONG_GAP = 15, 45
"""Minutes without a failed request that do not end a run: of an error that may pass, and of a refusal or a loss."""
_GAP_FACTOR, _LONGEST_GAP = 8, 240
_FAMILIES: tuple[tuple[str, ...], ...] = (
    ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "REPLICA_NOT_AVAILABLE"),
    ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"),
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "DUPLICATE_SEQUENCE_NUMBER"),
    ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"),
    ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
    ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    ("FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
)
"""Errors of one cause: a client gets now one of them, now another, by the API that it calls and the moment."""
_FAMILY_OF = {error: family for family in _FAMILIES for error in family}
_OF_A_BROKER = ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "KAFKA_STORAGE_ERROR")
"""Errors, each for its family, whose cause is a broker whatever the client asks for."""
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")
"""The APIs for which a protocol's own error is a failure if it lasts: the group's progress is not recorded."""
_ADVICE: dict[str, str] = {
    **dict.fromkeys(
        REFUSALS,
        "Grant the right if the access is intended (kafka-acls --add), and look for a change of ACLs at that time. Otherwise stop "
        "the client, or find out who uses its credentials.",
    ),
    "UNKNOWN_TOPIC_OR_PARTITION": "Create the topic, or remove it from the client's configuration; look for a DeleteTopics before.",
    "MESSAGE_TOO_LARGE": "Increase max.message.bytes of the topic, or make the producer send smaller batches (max.request.size).",
    "RECORD_LIST_TOO_LARGE": "Increase max.message.bytes of the topic, or make the producer send smaller batches.",
    "OFFSET_OUT_OF_RANGE": "The consumer's offset no longer exists: retention was faster. Check its lag and auto.offset.reset.",
    "NOT_ENOUGH_REPLICAS": "Bring the missing replicas back: fewer than min.insync.replicas are in sync.",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "Bring the missing replicas back: fewer than min.insync.replicas are in sync.",
    "KAFKA_STORAGE_ERROR": "Replace the disk: a log directory of the broker is offline.",
    "PRODUCER_FENCED": "Give each instance a transactional.id of its own: two producers use one.",
    "INVALID_PRODUCER_EPOCH": "Give each instance a transactional.id of its own: two producers use one.",
    "FENCED_INSTANCE_ID": "Give each member a group.instance.id of its own: two members use one.",
    "CORRUPT_MESSAGE": "Check the producer and its network: record batches arrive with wrong checksums.",
    "INVALID_RECORD": "Correct the producer's records: the topic requires keys (cleanup.policy=compact) or another format.",
    "THROTTLING_QUOTA_EXCEEDED": "Reduce the rate of creating and deleting topics, or increase controller_mutation_rate.",
}
_USUAL_ADVICE = (
    "Check the broker's log for this error, and whether leaders moved, a disk failed or a topic was deleted at that time."
)


@dataclass(slots=True)
class _Failing:
    """Failed requests with one error in a span, by one client or several."""

    error: str
    span: Span
    requests: int
    rows: Failures
    apis: tuple[str, ...]
    is_burst: bool = False

    @property
    def family(self) -> tuple[str, ...]:
        """The errors of the same cause."""
        return _FAMILY_OF.get(self.error, (self.error,))

    @property
    def errors(self) -> list[str]:
        """Its errors, the most frequent first; one that hardly occurs is left out."""
        top = self.rows.top("error") or [((self.error,), self.requests)]
        return [name[0] for name, count in top if count >= _RARE * sum(each[1] for each in top)]

    @property
    def is_of_a_broker(self) -> bool:
        """Whether the cause is a broker, whatever the clients ask for."""
        return self.family[0] in _OF_A_BROKER

    def overlap(self, other: _Failing) -> float:
        """Return the share of its minutes that another one has, too."""
        return self.span.common_minutes(other.span) / self.span.length_minutes


def failing_requests(tables: Tables) -> Iterator[Finding]:
    """Find minutes with far more errors of a kind than usual, and clients that fail over and over, however slowly."""
    bursts, lasting = _bursts(tables), _lasting(tables)
    kept = [one for one in lasting if not any(_is_part(one, burst) for burst in bursts)]
    shown = [burst for burst in bursts if not any(_is_part(burst, one) for one in kept)]
    for one in (*shown, *kept):
        yield _finding(tables, one)


def _is_part(one: _Failing, other: _Failing) -> bool:
    """Return whether one is the same as another, which is longer or has more requests."""
    if one.family != other.family or not set(one.apis) & set(other.apis) or one.overlap(other) < _SAME:
        return False
    if other.is_burst:
        return other.requests >= one.requests
    inside = int(_between(other.rows, one.span, one.apis).requests.sum())
    return inside >= _SAME * one.requests


def _between(rows: Failures, span: Span, apis: tuple[str, ...]) -> Failures:
    first, last = rows.axis.place(span.first), rows.axis.place(span.last)
    return rows.chosen((rows.minute >= first) & (rows.minute <= last) & rows.where("api", *apis))


def _bursts(tables: Tables) -> list[_Failing]:
    requests = {(row["at"], row["api"]): row["requests"] for row in tables["tick"]}
    minutes: dict[tuple[str, str], Minutes] = defaultdict(dict)
    for row in tables["error_minute"]:
        minutes[row["api"], row["error"]][row["at"]] = row["requests"]
    length = len({at for at, _ in requests})
    found = []
    for (api, error), counted in sorted(minutes.items()):
        if error in limits.EXPECTED_ERRORS or error in LOGIN_ERRORS:
            continue
        usual = unusual([*counted.values(), *[0.0] * (length - len(counted))], limits.MAD_FACTOR)
        limit = max(usual, limits.ERRORS_A_MINUTE_FLOOR)
        excess = {
            at: count
            for at, count in counted.items()
            if count >= limit and count >= limits.ERRORS_SHARE * requests.get((at, api), 0)
        }
        rows = tables.grids.failures
        rows = rows.chosen(rows.where("error", error) & rows.where("api", api))
        for span in spans(excess, limits.MINUTES_FLOOR):
            inside = _between(rows, span, (api,))
            found.append(_Failing(error, span, round(sum(span.values)), inside, (api,), is_burst=True))
    return found


def _lasting(tables: Tables) -> list[_Failing]:
    """Return the runs of failed requests of one client, or of one principal that is refused; those of the same cause together."""
    every = tables.grids.failures
    found: list[_Failing] = []
    for family in dict.fromkeys(_FAMILY_OF.get(error, (error,)) for error in every.texts["error"]):
        if family[0] in LOGIN_ERRORS:
            continue
        mine = every.chosen(every.where("error", *family) & _counts_if_it_lasts(every, family))
        if family[0] in REFUSALS:
            found += _of_one_cause(_refusals(mine, tables.grids.persons))
            continue
        of_clients = _of_one_cause(_of_clients(family, mine, tables.grids.persons))
        found += of_clients or _of_one_account(family, mine)
    return found


def _of_one_account(family: tuple[str, ...], mine: Failures) -> list[_Failing]:
    """Return the run of an error that one account has now and then for hours, and hardly anybody else: few of its requests fail."""
    if not limits.RETRY_ERRORS.isdisjoint(family) or not limits.EXPECTED_ERRORS.isdisjoint(family):
        return []
    names = mine.top("client_id", "principal")
    owners = Counter[str]()
    for name, count in names:
        owners[owner_of(name)] += count
    (owner, most), *_ = owners.most_common(1) or [("", 0)]
    if most < max(limits.FAILURES_FLOOR, _ALONE * owners.total()):
        return []
    its = [name for name, _ in names if owner_of(name) == owner]
    rows = mine.chosen(mine.where("client_id", *(name[0] for name in its)) & mine.where("principal", *(name[1] for name in its)))
    counts = rows.per_minute()
    run = max(runs(counts > 0, _longest_gap(counts)), key=lambda each: each[1] - each[0])
    inside = rows.chosen((rows.minute >= run[0]) & (rows.minute <= run[1]))
    requests = int(inside.requests.sum())
    if run[1] - run[0] + 1 < limits.RARELY_MINUTES or requests < limits.FAILURES_FLOOR:
        return []
    span = span_of(rows.axis, run, tuple(counts[run[0] : run[1] + 1].tolist()))
    return [_Failing(inside.top("error")[0][0][0], span, requests, inside, tuple(name[0] for name, _ in inside.top("api")))]


def _of_clients(family: tuple[str, ...], mine: Failures, persons: Grid) -> list[_Failing]:
    """Return the runs of failures of each client; clients that fail too seldom each count together with their account's others."""
    found: list[_Failing] = []
    rest = np.ones(len(mine.minute), np.bool_)
    for name, count in mine.top("client_id", "principal"):
        if count < _floor(family):
            break
        chosen = mine.where("client_id", name[0]) & mine.where("principal", name[1])
        rest &= ~chosen
        found += _runs_of(family, mine.chosen(chosen), persons)
    others = mine.chosen(rest)
    for name, count in others.top("principal", "topic"):
        if count < _floor(family):
            break
        found += _runs_of(family, others.chosen(others.where("principal", name[0]) & others.where("topic", name[1])), persons)
    return found


def _floor(family: tuple[str, ...]) -> int:
    return limits.LOST_FLOOR if family[0] in limits.LOSSES else limits.FAILURES_FLOOR


def _counts_if_it_lasts(rows: Failures, family: tuple[str, ...]) -> Any:
    """Return in which rows an error is a failure: of an expected one only where it prevents a commit."""
    is_expected = not limits.EXPECTED_ERRORS.isdisjoint(family)
    return rows.where("api", *_COMMITS) if is_expected else np.ones(len(rows.minute), np.bool_)


def _refusals(mine: Failures, persons: Grid) -> list[_Failing]:
    """Return the runs of refusals of each principal: of a topic that it often asks for, and of all other topics together."""
    found: list[_Failing] = []
    often = [name for name, count in mine.top("principal", "topic") if count >= limits.FAILURES_FLOOR]
    rest = np.ones(len(mine.minute), np.bool_)
    for principal, topic in often:
        chosen = mine.where("principal", principal) & mine.where("topic", topic)
        rest &= ~chosen
        found += _runs_of(REFUSALS, mine.chosen(chosen), persons)
    others = mine.chosen(rest)
    for (principal,), count in others.top("principal"):
        if count < limits.REFUSED_TOPICS:
            break
        found += _runs_of(REFUSALS, others.chosen(others.where("principal", principal)), persons)
    return found


def _runs_of(family: tuple[str, ...], rows: Failures, persons: Grid) -> Iterator[_Failing]:
    is_refusal, is_loss = family[0] in REFUSALS, family[0] in limits.LOSSES
    is_expected = not limits.EXPECTED_ERRORS.isdisjoint(family)
    counts = rows.per_minute()
    for run in runs(counts > 0, _longest_gap(counts) if is_refusal or is_loss else _SHORT_GAP):
        requests, minutes = int(counts[run[0] : run[1] + 1].sum()), run[1] - run[0] + 1
        inside = rows.chosen((rows.minute >= run[0]) & (rows.minute <= run[1]))
        is_long = minutes >= limits.FAILING_MINUTES and requests >= _floor(family)
        soon = limits.LOST_FLOOR if is_loss else limits.FAILURES_SOON
        is_soon = minutes > limits.MINUTES_FLOOR and requests >= soon and not is_expected
        is_broad = is_refusal and len(inside.top("topic")) >= limits.REFUSED_TOPICS and requests >= limits.LOST_FLOOR
        is_cut_off = is_refusal and minutes > limits.MINUTES_FLOOR and _is_cut_off(persons, inside, run)
        if not (is_long or is_soon or is_broad or is_cut_off):
            continue
        if not (is_refusal or is_loss) and requests < limits.FAILING_SHARE * _requests(persons, inside, run):
            continue
        span = span_of(rows.axis, run, tuple(counts[run[0] : run[1] + 1].tolist()))
        error = inside.top("error")[0][0][0]
        yield _Failing(error, span, requests, inside, tuple(name[0] for name, _ in inside.top("api")))


def _is_cut_off(persons: Grid, inside: Failures, run: Run) -> bool:
    """Return whether clients are refused nearly all that they ask for, and were not so before: they have lost a right."""
    requests = inside.requests.sum()
    before = sum(
        persons["requests"][row, : persons.axis.place(inside.axis.moment(run[0]))].sum()
        for name, _ in inside.top("client_id", "principal", "api")
        for row in persons.rows(client_id=name[0], principal=name[1], api=name[2])
    )
    return bool(requests >= limits.LOST_FLOOR and before >= requests and requests >= _CUT_OFF * _requests(persons, inside, run))


def _longest_gap(counts: Any) -> int:
    """Return the minutes without a failed request that do not end a run: several times as many as usual between two of them."""
    between = np.diff(np.flatnonzero(counts))
    return int(min(max(_LONG_GAP, _GAP_FACTOR * np.median(between)), _LONGEST_GAP)) if len(between) else _LONG_GAP


def _requests(persons: Grid, rows: Failures, run: Run) -> float:
    """Return the requests of the APIs and clients of these failures in the same minutes, failed or not."""
    first, last = (persons.axis.place(rows.axis.moment(at)) for at in run)
    whole = 0.0
    for name, _ in rows.top("client_id", "principal", "api"):
        for row in persons.rows(client_id=name[0], principal=name[1], api=name[2]):
            whole += persons["requests"][row, first : last + 1].sum()
    return whole * min(1.0, (run[1] - run[0] + 1) / ((last - first + 1) * persons.axis.step_s / 60))


def _of_one_cause(found: list[_Failing]) -> list[_Failing]:
    """Join failures with one error and mostly the same minutes: several clients or topics suffer from one cause."""
    joined: list[_Failing] = []
    for one in sorted(found, key=lambda one: -one.requests):
        same = next(
            (other for other in joined if min(one.overlap(other), other.overlap(one)) >= _SAME and _is_near(one, other)), None
        )
        if same is None:
            joined.append(one)
            continue
        rows = _joined(same.rows, one.rows)
        span = Span(min(same.span.first, one.span.first), max(same.span.last, one.span.last), same.span.values)
        apis = tuple(dict.fromkeys((*same.apis, *one.apis)))
        joined[joined.index(same)] = _Failing(same.error, span, same.requests + one.requests, rows, apis)
    return joined


def _is_near(one: _Failing, other: _Failing) -> bool:
    """Return whether two have a topic, a broker, a group or a principal in common that is most of each."""
    if len(one.rows.texts["node"]) < 2 and one.is_of_a_broker:
        return True  # there is one, even if the log does not say which
    keys = ("topic", "principal", "group_id", *(["node"] if len(one.rows.texts["node"]) > 1 else []))
    values = [(main_value(one.rows, key), main_value(other.rows, key)) for key in keys]
    return any(mine is not None and mine == its for mine, its in values)


def _joined(one: Failures, other: Failures) -> Failures:
    codes = {key: np.concatenate((one.codes[key], other.codes[key])) for key in one.codes}
    minute, requests = np.concatenate((one.minute, other.minute)), np.concatenate((one.requests, other.requests))
    return type(one)(one.axis, minute, requests, codes, one.texts)


def main_value(rows: Failures, key: str) -> Any:
    """Return the value of a key that most of the requests have."""
    top = rows.top(key)
    whole = sum(count for _, count in top)
    return top[0][0][0] if top and top[0][1] > _MOSTLY * whole else None


def several_values(rows: Failures, key: str) -> str | None:
    """Return how many values of a key there are, and the most frequent ones; None if there is one."""
    top = [name[0] for name, _ in rows.top(key) if name[0] is not None]
    return f"{len(top)}: {', '.join(map(str, top[:3]))}{' ...' if top[3:] else ''}" if top[1:] else None


def _finding(tables: Tables, one: _Failing) -> Finding:
    name = "error-burst" if one.is_burst else "access-denied" if one.error in REFUSALS else "failing-client"
    client = main_value(one.rows, "client_id")
    principal, topic = main_value(one.rows, "principal"), main_value(one.rows, "topic")
    node = _broker_of(one) if len(tables["node"]) > 1 else None
    top = one.rows.top("client_id")
    evidence = {
        "error": one.error,
        "other errors": ", ".join(one.errors[1:]) or None,
        "apis": ", ".join(one.apis),
        "errors": one.requests,
        "minutes": one.span.length_minutes,
        "maximum per minute": round(max(one.span.values)),
        "top client": top[0][0][0] if top else None,
        "client_id": client,
        "clients": several_values(one.rows, "client_id"),
        "principal": principal,
        "principals": several_values(one.rows, "principal"),
        "topic": topic,
        "topics": several_values(one.rows, "topic"),
        "group_id": main_value(one.rows, "group_id"),
        "node": node,
        "address": main_value(one.rows, "note"),
        "before": change_before(tables, one.span.first, topic, one.error),
    }
    conditions = [equal(error=one.error) if not one.errors[1:] else "error IN ('" + "', '".join(one.errors) + "')"]
    if len(one.apis) == 1:
        conditions.append(equal(api=one.apis[0]))
    if not one.is_burst:
        conditions.append(equal(principal=principal) if name == "access-denied" or client is None else equal(client_id=client))
    address = evidence["address"] if _is_new_address(tables, one, principal, evidence["address"]) else None
    return Finding(
        name,
        _title(one, name, (client, address), principal, topic, evidence["node"]),
        evidence,
        " AND ".join([*conditions, one.span.where]),
        _ADVICE.get(one.error, _USUAL_ADVICE),
        text(one.span.first),
        text(one.span.last),
        float(one.requests),
        set(one.apis),
        impact=f"{one.requests:,} requests failed",
    )


def _broker_of(one: _Failing) -> Any:
    """Return the broker that has nearly all of the failures."""
    top = one.rows.top("node")
    if not top or top[0][1] < _NEARLY_ALL * sum(count for _, count in top):
        return None
    return top[0][0][0]


def _is_new_address(tables: Tables, one: _Failing, principal: Any, address: Any) -> bool:
    """Return whether failures come from an address of their own: nobody with this account was there before, but elsewhere."""
    if principal is None or address is None:
        return False
    begins = {row["note"]: row["first_us"] for row in tables["address"] if row["principal"] == principal and row["first_us"]}
    first_us = (one.span.first - 2 * MINUTE).timestamp() * 1e6
    return bool(begins.get(address, 0) >= first_us and min(begins.values()) < first_us)


def _title(one: _Failing, name: str, who_where: tuple[Any, Any], principal: Any, topic: Any, node: Any) -> str:
    client, address = who_where
    of_address = f" at {address}, a new address," if address is not None else ""
    when = f"{text(one.span.first)} to {text(one.span.last)}"
    is_the_only = node is None and topic is None and one.is_of_a_broker and len(one.rows.texts["node"]) < 2
    where = " to the broker" if is_the_only else f" to broker {node}" if node is not None and topic is None else ""
    about = f" of topic {topic}" if topic is not None else ""
    if name == "access-denied":
        whom = f"{principal}{of_address}" if principal else "Several principals"
        return f"{whom} {'was' if principal else 'were'} refused access{about.replace(' of', ' to')} {one.requests:,} times, {when}"
    who = (
        f" of {client}{of_address}"
        if client is not None
        else f" of {len(one.rows.top('client_id'))} clients"
        if one.requests
        else ""
    )
    if name == "error-burst":
        return f"{one.apis[0]}{where} failed with {one.error}{about}, {when}"
    return f"{' and '.join(one.apis[:2])} requests{who}{where} failed with {' or '.join(one.errors[:2])}{about}, {when}"


def change_before(tables: Tables, first: datetime.datetime, topic: str | None = None, error: str = "") -> str | None:
    """Return the change of the cluster that came shortly before a time, if it is about the topic or may explain the error."""
    found = None
    for row in sorted(tables["change"], key=lambda row: row["first_us"]):
        at = datetime.datetime.fromtimestamp(row["first_us"] / 1e6, datetime.UTC)
        if row["error"] is not None or not first - limits.CAUSE_BEFORE <= at < first + MINUTE:
            continue
        is_about_topic = topic is not None and f"topic {topic}" in (row["note"] or "").split(", ")
        if is_about_topic or (error in REFUSALS) == ("Acls" in row["api"]):
            found = f"{row['api']} {row['note'] or ''} by {row['principal']} at {text(at)[11:16]}"
    return found
