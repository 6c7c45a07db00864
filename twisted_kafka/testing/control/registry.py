"""The schema registry over HTTP: its faults and its requests."""

from collections.abc import Mapping
from typing import Any, Final

from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError, bad
from twisted_kafka.testing.control.faults import fault_form
from twisted_kafka.testing.control.waits import MAX_WAIT_S
from twisted_kafka.testing.waiting import WAIT_S

MAX_REQUESTS: Final = 1000
"""An answer has at most this many requests."""
_NUMBERS: Final = ("schema_id", "status", "error")
_TEXTS: Final = ("method", "path", "subject", "version", "schema_type", "outcome", "fault", "client", "user_agent")


def list_faults(call: Call) -> Any:
    """Return the rules in force, and how often each fired."""
    call.asked.end()
    return {"faults": [fault_form(fault) for fault in call.target.registry.faults]}


def add_faults(call: Call) -> Any:
    """Put a rule or a list of rules in force."""
    call.asked.end()
    is_list = isinstance(call.body, list)
    given = call.body if is_list else [call.body]
    if not all(isinstance(each, Mapping) for each in given):
        raise bad('expected a rule or a list of rules, as in {"api": "register", "error": 50001}')
    faults = call.target.registry.faults
    rules = [faults.rule_type.from_mapping(each) for each in given]  # all of them, or none
    forms = [fault_form(faults.add(rule)) for rule in rules]
    return {"faults": forms} if is_list else forms[0]


def get_fault(call: Call) -> Any:
    """Return one rule in force, by its id."""
    call.asked.end()
    return fault_form(_found(call))


def release_fault(call: Call) -> Any:
    """Let go the requests and answers that a rule holds; it stays in force."""
    call.given.end()
    fault = _found(call)
    fault.release()
    return fault_form(fault)


def remove_fault(call: Call) -> Any:
    """Remove a rule; return how often it fired."""
    call.asked.end()
    fault = _found(call)
    call.target.registry.faults.remove(fault)
    return fault_form(fault)


def clear_faults(call: Call) -> Any:
    """Remove all rules; return how often each fired."""
    removed = list_faults(call)
    call.target.registry.faults.clear()
    return removed


def _found(call: Call) -> Any:
    (wanted,) = call.names
    for fault in call.target.registry.faults:
        if str(fault.number) == wanted:
            return fault
    raise ControlError(404, f"no rule with the id {wanted[:40]!r} is in force: GET /schema-registry/faults lists the rules")


def list_requests(call: Call) -> Any:
    """Return the latest answered requests that the query selects, oldest first, at most ``limit``."""
    asked = call.asked
    limit = min(asked.number("limit", MAX_REQUESTS), MAX_REQUESTS)
    found = list(_selected(call, asked.rest()))
    return {"requests": [_request_form(each) for each in found[max(len(found) - limit, 0) :]], "more": len(found) > limit}


def clear_requests(call: Call) -> Any:
    """Forget all requests."""
    call.asked.end()
    call.target.registry.requests.clear()
    return {}


def wait(call: Call) -> Any:
    """Wait at most ``timeout_s`` (30) for at least ``count`` (1) ``requests``, selected like the query of GET."""
    given = call.given
    timeout_s, count = given.take("timeout_s", float, WAIT_S), given.number("count", 1)
    filters = given.take("requests", dict, {})
    given.end()
    if not 0 <= timeout_s <= MAX_WAIT_S:
        raise bad(f"timeout_s is {timeout_s}: expected 0 to {MAX_WAIT_S:g}")
    return {"requests": [_request_form(each) for each in _selected(call, filters).wait_for(count, timeout_s)]}


def stop(call: Call) -> Any:
    """Close the port of the registry."""
    call.given.end()
    with call.target.changed():
        call.target.registry.stop()
    return {}


def start(call: Call) -> Any:
    """Serve again, at the same address."""
    call.given.end()
    with call.target.changed():
        try:
            call.target.registry.start()
        except (OSError, RegistryError) as error:
            raise ControlError(409, str(error)) from None
    return {"schema_registry_url": call.target.registry.url}


def _selected(call: Call, filters: Mapping[str, Any]) -> Any:
    """Return the requests that filters select. Raises ValueError and ControlError for one that cannot match."""
    filters = dict(filters)
    api = filters.pop("api", None)
    wanted: dict[str, Any] = {}
    for name, value in filters.items():
        if name not in (*_NUMBERS, *_TEXTS):
            raise bad(f"requests have no {name!r}: expected {', '.join(('api', *_TEXTS, *_NUMBERS))}")
        wanted[name] = decimal(str(value), INT32_MAX) if name in _NUMBERS else value
        if wanted[name] is None:
            raise bad(f"{name} is {value!r:.100}: expected a whole number")
    requests = call.target.registry.requests
    return (requests if api is None else requests.of(str(api))).where(**wanted)


def _request_form(request: Any) -> dict[str, Any]:
    names = ("api", "method", "path", "query", *_TEXTS[2:], *_NUMBERS, "fields", "response")
    form = {name: getattr(request, name) for name in names}
    times = {"arrived_ms": round(request.arrived_ms, 3), "answered_ms": round(request.answered_ms, 3)}
    return {**form, **times, "line": " ".join(str(request).split())}
