"""Fault rules over HTTP, and how often they fired."""

from typing import Any

from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError
from twisted_kafka.testing.fault_rules.faults import Rule
from twisted_kafka.testing.fault_rules.injection import Fault
from twisted_kafka.testing.fault_rules.rules_file import rules_of


def list_faults(call: Call) -> Any:
    """Return the rules in force, and how often each fired."""
    call.asked.end()
    return {"faults": [_form(fault, broker_id) for broker_id, _, fault in call.target.each_fault()]}


def add_faults(call: Call) -> Any:
    """Put a rule or a list of rules in force; for one broker with ``?broker=2``."""
    asked = call.asked
    broker_id = asked.number("broker", None)
    asked.end()
    is_list = isinstance(call.body, list)
    faults = call.target.faults(broker_id)
    rules = rules_of(call.body if is_list else [call.body], "the body")
    for rule in rules:  # all of them, or none
        faults.check(rule)
    added = [faults.add(rule) for rule in rules]
    forms = [_form(fault, broker_id) for fault in added]
    return {"faults": forms} if is_list else forms[0]


def get_fault(call: Call) -> Any:
    """Return one rule in force, by its id."""
    call.asked.end()
    broker_id, _, fault = _found_fault(call)
    return _form(fault, broker_id)


def release_fault(call: Call) -> Any:
    """Let go the requests and answers that a rule holds; it stays in force."""
    call.given.end()
    broker_id, _, fault = _found_fault(call)
    fault.release()
    return _form(fault, broker_id)


def remove_fault(call: Call) -> Any:
    """Remove a rule; return how often it fired."""
    call.asked.end()
    broker_id, faults, fault = _found_fault(call)
    faults.remove(fault)
    return _form(fault, broker_id)


def clear_faults(call: Call) -> Any:
    """Remove all rules; return how often each fired."""
    removed = list_faults(call)
    for _, faults, fault in list(call.target.each_fault()):
        faults.remove(fault)
    return removed


def _found_fault(call: Call) -> Any:
    (wanted,) = call.names
    for found in call.target.each_fault():
        if str(found[2].number) == wanted:
            return found
    raise ControlError(404, f"no rule with the id {wanted[:40]!r} is in force: GET /faults lists the rules")


def fault_form(fault: Fault[Any]) -> dict[str, Any]:
    """Return a rule in force, and how often it has fired."""
    return {
        "id": fault.number,
        "rule": fault.rule.as_mapping(),
        "matched": fault.matched,
        "fired": fault.fired,
        "held": fault.held,
        "firings": list(fault.firings),
    }


def _form(fault: Fault[Rule], broker_id: int | None) -> dict[str, Any]:
    form = fault_form(fault)
    return {"id": form.pop("id"), "broker": broker_id, **form}
