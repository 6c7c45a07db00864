"""Waiting over HTTP for the state of a group, an offset, a lag, a leader or requests. An answer of 504 has the last state seen."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from twisted_kafka.testing.broker import BrokerError
from twisted_kafka.testing.control.call import Call, Fields
from twisted_kafka.testing.control.errors import ControlError, bad
from twisted_kafka.testing.control.requests import selected
from twisted_kafka.testing.control.target import Target
from twisted_kafka.testing.groups import check_state
from twisted_kafka.testing.waiting import WAIT_S

MAX_WAIT_S: Final = 300.0
_LOOK_S: Final = 0.05
_SHOWN_REQUESTS: Final = 20


def wait(call: Call) -> Any:
    """Wait at most ``timeout_s`` (30) for one of these conditions; return the final state as ``seen``.

    ``state`` of a ``group``; at least ``offset`` as the end of ``topic`` and ``partition``; at least ``committed`` by ``group`` for
    ``topic`` and ``partition``; at most ``lag`` of a ``group`` (in ``topic``); a running leader of the topic ``leader_of`` and
    ``partition``, whose id is ``seen``; at least ``count`` (1) ``requests``, selected like the query of GET /requests.
    """
    given = call.given
    timeout_s = given.take("timeout_s", float, WAIT_S)
    if not 0 <= timeout_s <= MAX_WAIT_S:
        raise bad(f"timeout_s is {timeout_s}: expected 0 to {MAX_WAIT_S:g}")
    chosen = [kind for kind in _CONDITIONS if given.has(kind)]
    if len(chosen) != 1:
        raise bad(f"a wait is for one of {', '.join(_CONDITIONS)}, not for {' and '.join(chosen) or 'nothing'}")
    condition = _CONDITIONS[chosen[0]](call.target, given)
    given.end()
    return {"wanted": condition.wanted, "seen": _wait(call.target, condition, timeout_s)}


class _Condition(NamedTuple):
    wanted: str
    look: Callable[[], Any]
    is_there: Callable[[Any], bool]


def _wait(target: Target, condition: _Condition, timeout_s: float) -> Any:
    seen: list[Any] = [None]

    def is_there() -> bool:
        if target.is_closed:
            raise ControlError(503, "the control server has stopped")
        try:
            seen[0] = condition.look()
        except (BrokerError, TimeoutError) as error:  # a topic may still be created, or a leader elected
            seen[0] = str(error).partition("\n")[0]
            return False
        return condition.is_there(seen[0])

    requests = target.kafka.requests
    if requests.wait_until(is_there, timeout_s, _LOOK_S):
        return seen[0]
    text = f"waited {timeout_s:g} s for {condition.wanted}; the last value was {seen[0]!r}"
    raise ControlError(
        504, text, seen=seen[0], requests=[" ".join(str(each).split()) for each in requests.snapshot()[-_SHOWN_REQUESTS:]]
    )


def _for_state(target: Target, given: Fields) -> _Condition:
    group, state = given.take("group", str), given.take("state", str)
    check_state(state)
    return _Condition(f"group {group!r} {state}", lambda: target.kafka.group_state(group), lambda seen: seen == state)


def _for_offset(target: Target, given: Fields) -> _Condition:
    topic, partition, offset = given.take("topic", str), given.number("partition", 0), given.number("offset")
    wanted = f"end of {topic}-{partition} at {offset} or more"
    return _Condition(wanted, lambda: target.kafka.end_offset(topic, partition), lambda seen: seen >= offset)


def _for_committed(target: Target, given: Fields) -> _Condition:
    group, topic = given.take("group", str), given.take("topic", str)
    partition, offset = given.number("partition", 0), given.number("committed")
    return _Condition(
        f"group {group!r} at {offset} or more of {topic}-{partition}",
        lambda: target.kafka.committed(group).get((topic, partition)),
        lambda seen: seen is not None and seen >= offset,
    )


def _for_lag(target: Target, given: Fields) -> _Condition:
    group, lag, topic = given.take("group", str), given.number("lag"), given.take("topic", str, None)
    wanted = f"group {group!r} with a lag of {lag} or less" + (f" in {topic}" if topic else "")
    return _Condition(wanted, lambda: target.kafka.lag(group, topic), lambda seen: seen is not None and seen <= lag)


def _for_leader(target: Target, given: Fields) -> _Condition:
    topic, partition = given.take("leader_of", str), given.number("partition", 0)

    def look() -> int:
        return int(target.kafka.partition_state(topic, partition).leader_id)

    return _Condition(f"a running leader of {topic}-{partition}", look, lambda seen: seen in target.brokers())


def _for_requests(target: Target, given: Fields) -> _Condition:
    filters, count = given.take("requests", dict), given.number("count", 1)
    for broker in target.brokers().values():
        selected(broker.requests, filters)  # reports invalid filters at once
    wanted = f"{count} requests with {', '.join(f'{name}={value}' for name, value in filters.items()) or 'anything'}"

    def look() -> int:
        return sum(selected(broker.requests, filters).count() for broker in target.brokers().values())

    return _Condition(wanted, look, lambda seen: seen >= count)


_CONDITIONS: Final[Mapping[str, Callable[[Target, Fields], _Condition]]] = {
    "state": _for_state,
    "offset": _for_offset,
    "committed": _for_committed,
    "lag": _for_lag,
    "leader_of": _for_leader,
    "requests": _for_requests,
}
