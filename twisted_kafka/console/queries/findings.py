"""What is wrong with a cluster, with evidence and advice."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.cluster.groups import in_states
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted, size_text
from twisted_kafka.console.queries.cluster import Cluster, cluster
from twisted_kafka.console.queries.directories import Directory, directories
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.transactions import transaction, transactions

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"
KINDS: Final = (PROBLEM, WARNING, NOTE, OK)
"""From the worst to the best."""

MOST_NAMES: Final = 5
WARNING_DAYS: Final = 30
PROBLEM_DAYS: Final = 7
"""A certificate that expires before is reported."""
KEY_STORE: Final = "ssl.keystore"
FULL_SHARE: Final = 0.9
"""The used part of a disk from which on it is reported."""
MOST_TRANSACTIONS: Final = 20
"""Most open transactions that are looked at."""
LONG_MS: Final = 60_000
"""An open transaction that is older is reported: consumers with read_committed wait for it."""

_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_ONGOING: Final = "Ongoing"


@dataclass(frozen=True, slots=True)
class Expiry:
    """When certificates expire first."""

    listener: str
    store: str
    """The beginning of its settings: ``ssl.keystore``."""
    days: float
    """Until then; negative if one has expired."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    kind: str
    """``problem``, ``warning``, ``note`` or ``ok``."""
    text: str
    """What is wrong, and what to do about it."""
    about: str = ""
    """What it is about: ``topic orders``, ``group g``, ``broker 1``; empty for the cluster."""


def findings(session: Session, diagnoses: Sequence[str] = (), certificates: Sequence[Expiry] = ()) -> tuple[Finding, ...]:
    """Return the findings, the worst first.

    ``diagnoses`` are the recent mistakes of clients, which only their broker knows, like its ``certificates``.

    Leaves out what the user may not see. Raises CommandError if the cluster does not answer.
    """
    found = [*of_cluster(cluster(session)), *of_certificates(certificates), *(Finding(WARNING, each) for each in diagnoses)]
    with suppress(CommandError):
        disks = directories(session, with_replicas=False)
        found += of_disks(disks.items)
        found += (Finding(WARNING, f"{each}; look at its log, and at the network between the brokers") for each in disks.problems)
    with suppress(CommandError):
        found += of_groups(in_states(session, _REBALANCING))
    with suppress(CommandError):
        found += _of_transactions(session)
    if all(each.kind in (OK, NOTE) for each in found):
        found.append(Finding(OK, "no group rebalances, no disk is nearly full, and no transaction is open for long"))
    return tuple(sorted(found, key=lambda each: KINDS.index(each.kind)))


def of_cluster(state: Cluster) -> Iterator[Finding]:
    """Yield findings about brokers and partitions."""
    if state.controller_id < 0:
        yield Finding(PROBLEM, "the cluster has no controller: check the brokers' logs, and ZooKeeper or the quorum")
    for node in state.missing:
        yield Finding(PROBLEM, f"broker {node} has replicas and is not there: start it", f"broker {node}")
    total = sum(each.leaders for each in state.brokers) + sum(each.leader is None for each in state.unwell)
    offline = [each for each in state.unwell if each.leader is None]
    behind = [each for each in state.unwell if each.leader is not None]
    yield from of_partitions(total, len(offline), len(behind))
    for one in offline[:MOST_NAMES]:
        waits = ", ".join(map(str, one.in_sync or one.replicas))
        text = f"{one.topic} partition {one.partition} has no leader: start broker {waits}"
        yield Finding(PROBLEM, text, f"topic {one.topic}")


def of_partitions(total: int, offline: int, behind: int) -> Iterator[Finding]:
    """Yield findings about the numbers of all, leaderless and under-replicated partitions."""
    if offline:
        yield Finding(PROBLEM, f"{offline} of {total} partitions have no leader: start the brokers with their replicas")
    if behind:
        yield Finding(WARNING, f"{behind} of {total} partitions are under-replicated: a broker is down or slow")
    if not offline and not behind:
        yield Finding(OK, f"{total} partitions have a leader and all of their replicas")


def of_certificates(found: Sequence[Expiry]) -> Iterator[Finding]:
    """Yield findings about certificates that expire soon or have expired."""
    for each in found:
        if each.days >= WARNING_DAYS:
            continue
        when = "has expired" if each.days <= 0 else f"expires in {counted(int(each.days), 'day')}"
        advice = "clients refuse the broker then: replace the file, which the broker reads again by itself"
        if each.store != KEY_STORE:
            advice = "the broker refuses its clients then: replace it in the file, which the broker reads again by itself"
        text = f"a certificate of {each.store}.* of listener {each.listener} {when}; {advice}"
        yield Finding(PROBLEM if each.days < PROBLEM_DAYS else WARNING, text)


def of_groups(names: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding about groups that rebalance at the moment."""
    if names:
        shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
        advice = (
            "look again; if the group still rebalances, its members keep joining and leaving, "
            "or handle records for longer than max.poll.interval.ms"
        )
        yield Finding(WARNING, f"rebalancing now: {shown}; {advice}", f"group {names[0]}")


def of_disks(found: Sequence[Directory]) -> Iterator[Finding]:
    """Yield findings about directories that have failed or fill up."""
    for each in found:
        where = f"broker {each.broker}, {each.directory}"
        if each.error:
            yield Finding(PROBLEM, f"{where}: {each.error}", f"broker {each.broker}")
        elif (each.used_share or 0) >= FULL_SHARE:
            left = size_text(each.usable_bytes or 0)
            text = f"{where}: the disk is {100 * (each.used_share or 0):.0f} % full, {left} are left: lower retention, or add space"
            yield Finding(WARNING, text, f"broker {each.broker}")


def _of_transactions(session: Session) -> Iterator[Finding]:
    ongoing = transactions(session, Asked(page_size=MOST_TRANSACTIONS), states=(_ONGOING,)).items
    for name in ongoing:
        with suppress(CommandError):
            found: Any = transaction(session, name.transactional_id)
            age_ms = session.wall_ms() - found.started_ms
            if found.started_ms > 0 and age_ms > LONG_MS:
                text = (
                    f"transaction {found.transactional_id} has been open for {age_ms // 1000:,} s, its timeout is "
                    f"{found.timeout_ms:,} ms: consumers with read_committed wait for it; look for its producer"
                )
                yield Finding(WARNING, text, f"transaction {found.transactional_id}")
