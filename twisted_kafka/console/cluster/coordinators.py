"""Requests to the coordinators of groups and transactional ids."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.problems import CommandError, NotNowError, TryAgainError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED: Final = 4
"""The first version that asks for several keys."""
_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}

Answer = tuple[str, int, str | None, Any]
"""A key, its error code and message, and its part of the response."""


def ask_coordinator(session: Session, key: str, kind: int, request: Message, *, latest: int | None = None) -> Any:
    """Ask the coordinator of a group or transactional id; raises TryAgainError, or CommandError."""
    return session.ask(request, coordinator_of(session, key, kind), latest=latest)


def coordinator_of(session: Session, key: str, kind: int) -> int:
    """Return the coordinator's broker id; raises TryAgainError, or CommandError."""
    session.metadata([])
    if session.version(FindCoordinatorRequest) >= _BATCHED:
        found = next(iter(session.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators), None)
        if found is None:
            raise _unanswered(kind, key)
    else:
        found = session.ask(FindCoordinatorRequest(key_type=kind, key=key))
    if found.error_code:
        raise problem(f"{_NAMES[kind]} {key}", found.error_code, found.error_message)
    node: int = found.node_id
    return node


def _unanswered(kind: int, key: str) -> TryAgainError:
    return TryAgainError(f"no broker answered for {_NAMES[kind]} {key}")


def ask_coordinators(
    session: Session,
    keys: Sequence[str],
    kind: int,
    make: Callable[[list[str]], Message],
    read: Callable[[Any], Iterable[Answer]],
    *,
    latest: int | None = None,
) -> dict[str, Any]:
    """Ask the coordinators of keys, at the same time; return each key's part of a response, or its CommandError.

    ``make`` returns the request about some keys. Raises CommandError if nobody can be asked.
    """
    left, found = list(keys), dict[str, Any]()

    def step() -> None:
        nodes, answers = coordinators_of(session, left, kind)
        asked = session.ask_each({node: make(mine) for node, mine in nodes.items()}, latest=latest)
        for node, response in asked.items():
            if isinstance(response, CommandError):
                answers |= dict.fromkeys(nodes[node], response)
                continue
            for key, code, message, part in read(response):
                answers[key] = problem(f"{_NAMES[kind]} {key}", code, message) if code else part
        found.update({key: answers[key] if key in answers else _unanswered(kind, key) for key in left})
        answers = {key: found[key] for key in left}
        again = [key for key, answer in answers.items() if isinstance(answer, TryAgainError)]
        left[:] = again
        if again:
            raise answers[again[0]]

    try:
        if left:
            session.retrying(step)
    except NotNowError:
        if not found:
            raise
    return found


def coordinators_of(session: Session, keys: Sequence[str], kind: int) -> tuple[dict[int, list[str]], dict[str, CommandError]]:
    """Return the keys by their coordinator's broker id, and the errors of keys without one. Raises CommandError."""
    session.metadata([])
    by_node: dict[int, list[str]] = {}
    errors: dict[str, CommandError] = {}
    if session.version(FindCoordinatorRequest) < _BATCHED:
        for key in keys:
            by_node.setdefault(coordinator_of(session, key, kind), []).append(key)
        return by_node, errors
    for found in session.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))).coordinators:
        if found.error_code:
            errors[found.key] = problem(f"{_NAMES[kind]} {found.key}", found.error_code, found.error_message)
        else:
            by_node.setdefault(found.node_id, []).append(found.key)
    return by_node, errors
