"""The paths of the control API: one table, which also describes itself."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from twisted_kafka.testing.control import brokers, faults, groups, registry, requests, topics, waits
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError

Handler = Callable[[Call], Any]
_VARIABLE: Final = "*"


class Route(NamedTuple):
    """The handler of a method on a path; ``*`` stands for a name."""

    method: str
    path: tuple[str, ...]
    handler: Handler

    def names(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """Return the values of a path's variable parts; None if the path does not match."""
        if len(path) != len(self.path) or any(mine not in (_VARIABLE, its) for mine, its in zip(self.path, path, strict=True)):
            return None
        return tuple(its for mine, its in zip(self.path, path, strict=True) if mine == _VARIABLE)


def _route(method: str, path: str, handler: Handler) -> Route:
    return Route(method, tuple(path.split("/")[1:]), handler)


ROUTES: Final = (
    _route("GET", "/", brokers.describe),
    _route("POST", "/reset", brokers.reset),
    _route("POST", "/brokers/*/kill", brokers.kill_broker),
    _route("POST", "/brokers/*/stop", brokers.stop_broker),
    _route("POST", "/brokers/*/start", brokers.start_broker),
    _route("POST", "/brokers/*/freeze", brokers.freeze_broker),
    _route("POST", "/brokers/*/thaw", brokers.thaw_broker),
    _route("GET", "/faults", faults.list_faults),
    _route("POST", "/faults", faults.add_faults),
    _route("DELETE", "/faults", faults.clear_faults),
    _route("GET", "/faults/*", faults.get_fault),
    _route("DELETE", "/faults/*", faults.remove_fault),
    _route("POST", "/faults/*/release", faults.release_fault),
    _route("GET", "/requests", requests.list_requests),
    _route("DELETE", "/requests", requests.clear_requests),
    _route("GET", "/topics", topics.list_topics),
    _route("POST", "/topics", topics.create_topic),
    _route("GET", "/topics/*", topics.get_topic),
    _route("DELETE", "/topics/*", topics.delete_topic),
    _route("GET", "/topics/*/records", topics.list_records),
    _route("POST", "/topics/*/records", topics.produce),
    _route("GET", "/groups", groups.list_groups),
    _route("GET", "/groups/*", groups.get_group),
    _route("POST", "/groups/*/rebalance", groups.rebalance_group),
    _route("POST", "/waits", waits.wait),
    _route("GET", "/schema-registry/faults", registry.list_faults),
    _route("POST", "/schema-registry/faults", registry.add_faults),
    _route("DELETE", "/schema-registry/faults", registry.clear_faults),
    _route("GET", "/schema-registry/faults/*", registry.get_fault),
    _route("DELETE", "/schema-registry/faults/*", registry.remove_fault),
    _route("POST", "/schema-registry/faults/*/release", registry.release_fault),
    _route("GET", "/schema-registry/requests", registry.list_requests),
    _route("DELETE", "/schema-registry/requests", registry.clear_requests),
    _route("POST", "/schema-registry/waits", registry.wait),
    _route("POST", "/schema-registry/stop", registry.stop),
    _route("POST", "/schema-registry/start", registry.start),
    _route("GET", "/clock", brokers.get_clock),
    _route("POST", "/clock/hold", brokers.hold_clock),
    _route("POST", "/clock/release", brokers.release_clock),
    _route("POST", "/clock/advance", brokers.advance_clock),
    _route("POST", "/clock/jump", brokers.jump_clock),
)


def find(method: str, path: Sequence[str]) -> tuple[Handler, tuple[str, ...]]:
    """Return the handler of a method on a path, given as its parts, and the names in it. Raises ControlError, 404 or 405."""
    methods = []
    for route in ROUTES:
        names = route.names(path)
        if names is not None and route.method == method:
            return route.handler, names
        if names is not None:
            methods.append(route.method)
    if methods:
        raise ControlError(405, f"{method} is not for this path: expected {' or '.join(methods)}")
    known = dict.fromkeys("/" + "/".join(route.path) for route in ROUTES)
    raise ControlError(404, f"there is no such path: expected one of {', '.join(known)}")
