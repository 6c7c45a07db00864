"""Requests to the coordinators of groups and transactional ids."""

from collections.abc import Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.groups import FindCoordinatorRequest

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED: Final = 4
"""The first version that asks for several keys."""
_DENIED: Final = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}


def ask_coordinator(session: Session, key: str, kind: int, request: Message, *, latest: int | None = None) -> Any:
    """Ask the coordinator of a group or transactional id; raises TryAgainError, or CommandError."""
    return session.ask(request, coordinator_of(session, key, kind), latest=latest)


def coordinator_of(session: Session, key: str, kind: int) -> int:
    """Return the coordinator's broker id; raises TryAgainError, or CommandError."""
    session.metadata([])
    if session.version(FindCoordinatorRequest) >= _BATCHED:
        found = session.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators[0]
    else:
        found = session.ask(FindCoordinatorRequest(key_type=kind, key=key))
    if found.error_code:
        raise problem(f"{_NAMES[kind]} {key}", found.error_code, found.error_message)
    node: int = found.node_id
    return node


def coordinators_of(session: Session, keys: Sequence[str], kind: int, *, leaves_out_denied: bool = False) -> dict[int, list[str]]:
    """Return the keys by their coordinator's broker id; raises like ``coordinator_of``.

    ``leaves_out_denied``: keys that the user may not describe are left out, where a broker answers for several.
    """
    session.metadata([])
    if session.version(FindCoordinatorRequest) < _BATCHED:
        by_node: dict[int, list[str]] = {}
        for key in keys:
            by_node.setdefault(coordinator_of(session, key, kind), []).append(key)
        return by_node
    by_node = {}
    for found in session.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))).coordinators:
        if leaves_out_denied and found.error_code in _DENIED:
            continue
        if found.error_code:
            raise problem(f"{_NAMES[kind]} {found.key}", found.error_code, found.error_message)
        by_node.setdefault(found.node_id, []).append(found.key)
    return by_node
