"""Resolves subscriptions by regular expression to topics (RE2 syntax, as in Kafka 4)."""

import importlib
from collections.abc import Iterable, Mapping, Set
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
    return ResolvedRegex(_matching(regex, topics), now_ms)


def _matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    matches = compile_regex(regex).fullmatch
    return frozenset(name for name in topics if matches(name))


def match_known(
    group_id: str, regexes: Iterable[str], topics: Set[str], former: Set[str], matched: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return the topics that match each of a group's stored expressions, without expressions that cannot be compiled.

    ``matched`` are those of the ``former`` topics that expressions matched: against these, only new topics are matched. A group may
    have as many expressions as members, and the cluster has many topics.

    Another broker may have stored an expression that this broker does not accept. The expression keeps its former topics, and the
    group's other expressions are still matched.
    """
    new, gone = topics - former, former - topics
    found = {}
    for regex in regexes:
        known = matched.get(regex)
        try:
            if known is None:
                found[regex] = _matching(regex, topics)
                continue
            known = known if known.isdisjoint(gone) else known - gone
            more = _matching(regex, new) if new else frozenset()
            found[regex] = known | more if more else known
        except InvalidRegularExpressionError as error:
            _log.warn("Group {group}: a stored expression is not matched again: {error}", group=group_id, error=error)
    return found
