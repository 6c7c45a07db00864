"""Resolves subscriptions by regular expression to topics (RE2 syntax, as in Kafka 4)."""

import importlib
from collections.abc import Iterable
from typing import Any

from twisted.logger import Logger

from twisted_kafka.group_coordinator.state.consumer.consumer_group import ResolvedRegex
from twisted_kafka.protocol.errors import InvalidRegularExpressionError

MAX_REGEX_LENGTH = 1_024
"""Longer expressions are refused, since each one is matched against every topic."""

REFRESH_INTERVAL_MS = 10_000
"""Minimum interval at which a group's expressions are resolved again after topics have changed (as in Kafka)."""

_log = Logger()


def compile_regex(regex: str, name: str = "SubscribedTopicRegex") -> Any:
    """Return the compiled expression of the field ``name``. Raises InvalidRegularExpressionError."""
    if len(regex) > MAX_REGEX_LENGTH:
        raise InvalidRegularExpressionError(
            f"{name} is not valid: its length {len(regex)} is larger than {MAX_REGEX_LENGTH} characters."
        )
    try:
        re2 = importlib.import_module("re2")  # a shared library, needed only for groups with regular expressions
    except ImportError:
        raise InvalidRegularExpressionError(f"{name} is not supported: the broker was installed without its extra regex.") from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InvalidRegularExpressionError(f"{name} `{regex}` is not a valid regular expression: {reason}.") from error


def resolve(regex: str, topics: Iterable[str], now_ms: int) -> ResolvedRegex:
    """Return the topics that an expression matches completely. Raises InvalidRegularExpressionError."""
    matches = compile_regex(regex).fullmatch
    return ResolvedRegex(frozenset(name for name in topics if matches(name)), now_ms)


def resolve_known(group_id: str, regexes: Iterable[str], topics: Iterable[str], now_ms: int) -> dict[str, ResolvedRegex]:
    """Return the topics that match each of a group's stored expressions, without expressions that cannot be compiled.

    Another broker may have stored an expression that this broker does not accept. The expression keeps its former topics, and the
    group's other expressions are still matched.
    """
    names = list(topics)
    resolved = {}
    for regex in regexes:
        try:
            resolved[regex] = resolve(regex, names, now_ms)
        except InvalidRegularExpressionError as error:
            _log.warn("Group {group}: a stored expression is not matched again: {error}", group=group_id, error=error)
    return resolved
